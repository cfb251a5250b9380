"""How commands find the embedded database of a Fairlane that runs beside them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "database_url"


def running_database(data_dir: Path) -> str:
    """The address of the embedded database while it runs; empty otherwise."""
    try:
        return (data_dir / NAME).read_text(encoding="utf-8").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


@contextmanager
def announced_database(data_dir: Path, url: str) -> Iterator[None]:
    """Let commands in other terminals find ``url`` for as long as this is entered."""
    path = data_dir / NAME
    path.write_text(f"{url}\n", encoding="utf-8")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
