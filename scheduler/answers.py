"""Answers kept for whoever asks again, as files of the data folder."""

import contextlib
import os
import secrets
from pathlib import Path

DAY_NS = 24 * 3600 * 1_000_000_000
# In all; beyond it the oldest go first.
MOST_BYTES = 2 * 1024**3


class AnswerFiles:
    """One file a call, named by digest, readable by its owner alone; good for a day.

    Processes may share the folder: files appear whole or not at all.
    """

    def __init__(self, folder: Path, *, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    def find(self, name: bytes, now: int) -> bytes | None:
        """What is kept under ``name`` and not older than a day at ``now`` (ns)."""
        path = self._path(name)
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mtime_ns <= now - DAY_NS:
                    return None
                return file.read()
        except FileNotFoundError:
            return None

    def keep(self, name: bytes, content: bytes, now: int) -> None:
        """Keep it from now on, in place of what was there."""
        path = self._path(name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}.draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            os.utime(draft, ns=(now, now))
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise

    def drop(self, name: bytes) -> None:
        """Keep it no more."""
        with contextlib.suppress(OSError):
            self._path(name).unlink()

    def sweep(self, now: int) -> None:
        """Delete what is older than a day, and the oldest of what is too much."""
        found: list[tuple[int, int, Path]] = []
        for path in self._folder.glob("*/*"):
            with contextlib.suppress(OSError):
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        size = sum(each for _, each, _ in found)
        for at, each, path in sorted(found):
            if at > now - DAY_NS and size <= self._most_bytes:
                break
            path.unlink(missing_ok=True)
            size -= each

    def _path(self, name: bytes) -> Path:
        text = name.hex()
        return self._folder / text[:2] / text[2:]
