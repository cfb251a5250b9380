"""Environment readers that fail loudly.

Each reader takes the variable's name and returns a value of one type, or stops the
start with one line that names the variable. A secret may also come from a file:
``NAME_FILE`` holds its path.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


def stop(name: str, problem: str) -> SystemExit:
    """The error that ends the start: one line on standard error, exit status 2."""
    sys.stderr.write(f"fairlane: {name}: {problem}\n")
    return SystemExit(2)


class Env:
    """Typed view of an environment; ``source`` is os.environ but for tests."""

    def __init__(self, source: Mapping[str, str] | None = None) -> None:
        self._source = os.environ if source is None else source

    def text(self, name: str, default: str = "") -> str:
        """The value with surrounding blanks cut; an empty value counts as absent."""
        return self._source.get(name, "").strip() or default

    def secret(self, name: str, default: str = "") -> str:
        """The value of ``name``, or the content of the file that ``name_FILE`` names."""
        path = self.text(f"{name}_FILE")
        if not path:
            return self.text(name, default)
        if self.text(name):
            raise stop(name, f"set either {name} or {name}_FILE, not both")
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise stop(f"{name}_FILE", f"cannot read {path}: {error.strerror}") from None
        if not value:
            raise stop(f"{name}_FILE", f"{path} is empty")
        return value

    def integer(self, name: str, default: int, *, least: int = 0) -> int:
        """A whole number of at least ``least``."""
        raw = self.text(name)
        if not raw:
            return default
        try:
            value = int(raw)
        except ValueError:
            raise stop(name, f"{raw!r} is not a whole number") from None
        if value < least:
            raise stop(name, f"{value} is below {least}")
        return value

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of ``allowed``, compared exactly."""
        value = self.text(name, default)
        if value not in allowed:
            raise stop(name, f"{value!r} is not one of {', '.join(allowed)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """``1/true/yes/on`` or ``0/false/no/off``, in any case."""
        raw = self.text(name).lower()
        if not raw:
            return default
        if raw in {"1", "true", "yes", "on"}:
            return True
        if raw in {"0", "false", "no", "off"}:
            return False
        raise stop(name, f"{raw!r} is neither on nor off")

    def names(self, name: str, default: tuple[str, ...] = ()) -> list[str]:
        """Comma-separated names, blanks cut, empty ones dropped."""
        raw = self.text(name)
        return [part.strip() for part in raw.split(",") if part.strip()] if raw else list(default)

    def timezone(self, name: str, default: str) -> str:
        """The name of a time zone that this machine knows."""
        value = self.text(name, default)
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError):
            raise stop(name, f"{value!r} is not a known time zone") from None
        return value
