"""Every string that people read, from Python, templates and scripts."""

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from babel.messages.extract import extract
from django.utils.translation.template import templatize

Keywords = Mapping[str, tuple[int | tuple[int, int] | tuple[int, str], ...] | None]

PYTHON_FOLDERS = ("console", "metering", "scheduler")
KEYWORDS: Keywords = {
    **dict.fromkeys(("_", "_lazy", "gettext", "gettext_lazy", "gettext_noop"), None),
    **dict.fromkeys(("ngettext", "ngettext_lazy"), (1, 2)),
    **dict.fromkeys(("pgettext", "pgettext_lazy"), ((1, "c"), 2)),
}
# The schema of the policy is pure and knows no gettext: its help texts are what these are given.
SCHEMA = Path("scheduler", "core", "policy")
SCHEMA_KEYWORDS: Keywords = {
    **dict.fromkeys(("flag", "whole", "millis", "number", "seconds", "share"), (2,)),
    **dict.fromkeys(("group", "rows"), (2,)),
    **dict.fromkeys(("choice", "choices", "levels"), (3,)),
    "pool": (1,),
}
SCRIPT_KEYWORDS: Keywords = {"gettext": None, "ngettext": (1, 2), "pgettext": ((1, "c"), 2)}


@dataclass(frozen=True, slots=True, order=True)
class Wanted:
    """One message: singular, plural ("" without), context ("" without)."""

    text: str
    plural: str = ""
    context: str = ""


def messages(root: Path) -> dict[Wanted, str]:
    """What Python and templates below ``root`` ask for, with one place where each stands."""
    found: dict[Wanted, str] = {}
    for folder in PYTHON_FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if "migrations" not in path.parts:
                schema = path.is_relative_to(root / SCHEMA)
                words = SCHEMA_KEYWORDS if schema else KEYWORDS
                _note(found, _read("python", path.read_bytes(), words), path, root)
    for path in sorted((root / "templates").rglob("*.html")):
        _note(found, _template(path), path, root)
    return found


def script_messages(root: Path) -> dict[Wanted, str]:
    """What the scripts below ``static/js`` ask for."""
    found: dict[Wanted, str] = {}
    for path in sorted((root / "static" / "js").rglob("*.js")):
        _note(found, _read("javascript", path.read_bytes(), SCRIPT_KEYWORDS), path, root)
    return found


def _template(path: Path) -> Iterator[Wanted]:
    source = templatize(path.read_text(encoding="utf-8"), origin=str(path))
    # What is left of the template's indentation would not be Python's.
    lines = "\n".join(line.strip() for line in source.splitlines())
    return _read("python", lines.encode(), KEYWORDS)


def _read(method: str, source: bytes, keywords: Keywords) -> Iterator[Wanted]:
    for _line, message, _comments, context in extract(
        method, io.BytesIO(source), keywords=keywords, options={"encoding": "utf-8"}
    ):
        if isinstance(message, tuple):
            singular, plural = message[0], message[1]
        else:
            singular, plural = message, ""
        if singular:
            yield Wanted(singular, plural, context or "")


def _note(found: dict[Wanted, str], wanted: Iterator[Wanted], path: Path, root: Path) -> None:
    for each in wanted:
        found.setdefault(each, str(path.relative_to(root)))
