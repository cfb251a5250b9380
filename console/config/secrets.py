"""Secrets that an installation makes for itself and keeps in its data folder."""

import os
import secrets
from pathlib import Path


def kept_secret(path: Path) -> str:
    """Return the secret in ``path``, made on first use with mode 0600.

    Two processes that start at once agree: the file appears whole, by a hard link that
    only the first can make.
    """
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secrets.token_urlsafe(48))
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text(encoding="ascii").strip()
