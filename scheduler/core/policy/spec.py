"""What is known about each field of the policy, beside its type and default.

A field's :class:`Spec` sits in its dataclass metadata and is the one source for reading
and checking, for form labels and help, and for the messages of refusals.
"""

from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from enum import Enum
from typing import TypeVar, cast

MOST_LEVEL = 9
MOST_ROWS = 500
WEEK_MS = 7 * 24 * 3600 * 1000
WEEK_S = WEEK_MS / 1000
MANY = 1_000_000

OptionalFlag = TypeVar("OptionalFlag", bool, bool | None)
OptionalInt = TypeVar("OptionalInt", int, int | None)
OptionalText = TypeVar("OptionalText", str, str | None)
Row = TypeVar("Row", bound="Section")


class Kind(Enum):
    """The form of a field. In memory a share is a ratio 0-1, in a document a string with %."""

    FLAG = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"
    SHARE = "a percentage"
    TEXT = "a name"
    CHOICE = "one of a few words"
    CHOICES = "a list of words"
    LEVELS = "a range of levels"
    ROWS = "a list of rows"
    SECTION = "a mapping"


@dataclass(frozen=True, slots=True)
class Section:
    """A group of fields: a mapping in a document, a fieldset in a form."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Help, unit and limits of one field.

    ``least`` and ``most`` are inclusive, ``above`` is exclusive, all in the form kept in
    memory. ``aliases`` are other spellings that are read as one of ``choices``.
    ``optional`` fields may be null, ``required`` ones must be in a document. ``section`` is
    the type of a section or of a row.
    """

    kind: Kind
    help: str
    unit: str = ""
    least: float | None = None
    most: float | None = None
    above: float | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()
    optional: bool = False
    required: bool = False
    section: type[Section] | None = None

    def allowed(self) -> str:
        """What may stand here, as the end of the sentence "must be ..."."""
        text = _WORDS[self.kind](self) + self._limits()
        return f"{text}, or null" if self.optional else text

    def _limits(self) -> str:
        if self.least is None and self.above is None:
            return ""
        low = "at least" if self.above is None else "above"
        edge = self.least if self.above is None else self.above
        high = "" if self.most is None else f" and at most {self._shown(self.most)}"
        unit = f" {self.unit}" if self.unit else ""
        return f", {low} {self._shown(edge)}{high}{unit}"

    def _shown(self, value: float | None) -> str:
        factor = 100 if self.kind is Kind.SHARE else 1
        return f"{(value or 0) * factor:.15g}{'%' if factor > 1 else ''}"


_WORDS: dict[Kind, Callable[[Spec], str]] = {
    Kind.FLAG: lambda spec: "true or false",
    Kind.WHOLE: lambda spec: "a whole number",
    Kind.NUMBER: lambda spec: "a number",
    Kind.SHARE: lambda spec: 'a percentage such as "40%"',
    Kind.TEXT: lambda spec: f"a name of at most {spec.most} printable characters",
    Kind.CHOICE: lambda spec: f"one of {', '.join(spec.choices)}",
    Kind.CHOICES: lambda spec: f"a list of any of {', '.join(spec.choices)}",
    Kind.LEVELS: lambda spec: "a pair of levels such as [0, 2]",
    Kind.ROWS: lambda spec: f"a list of at most {spec.most} rows",
    Kind.SECTION: lambda spec: "a mapping",
}


def spec_of(item: "Field[object]") -> Spec | None:
    """The Spec of a dataclass field; None for one that is not part of the schema."""
    return cast("Spec | None", item.metadata.get("spec"))


def specs(section: type[Section] | Section) -> list[tuple[str, Spec]]:
    """The names and Specs of a section's fields, in their order."""
    found = ((item.name, spec_of(item)) for item in fields(section))
    return [(name, spec) for name, spec in found if spec is not None]


def flag(default: OptionalFlag, help: str) -> OptionalFlag:
    """A field that is on or off."""
    return field(
        default=default, metadata={"spec": Spec(Kind.FLAG, help, optional=default is None)}
    )


def whole(
    default: OptionalInt,
    help: str,
    unit: str = "",
    *,
    least: int = 0,
    most: int = MANY,
    required: bool = False,
) -> OptionalInt:
    """A field that counts something; null is allowed where it is the default."""
    spec = Spec(Kind.WHOLE, help, unit, least, most, optional=default is None, required=required)
    return field(default=default, metadata={"spec": spec})


def millis(default: OptionalInt, help: str, *, least: int = 1) -> OptionalInt:
    """A field in whole milliseconds, a week at most."""
    return whole(default, help, "ms", least=least, most=WEEK_MS)


def number(
    default: float,
    help: str,
    unit: str = "",
    *,
    least: float | None = 0.0,
    most: float = MANY,
    above: float | None = None,
) -> float:
    """A field that measures or weighs something."""
    spec = Spec(Kind.NUMBER, help, unit, None if above is not None else least, most, above)
    return field(default=default, metadata={"spec": spec})


def seconds(default: float, help: str, *, most: float = WEEK_S) -> float:
    """A field in seconds, more than none and by default a week at most."""
    return number(default, help, "s", above=0.0, most=most)


def share(default: float, help: str) -> float:
    """A field that is a ratio 0-1 in memory and a percentage in a document."""
    return field(default=default, metadata={"spec": Spec(Kind.SHARE, help, "", 0.0, 1.0)})


def pool(help: str) -> str | None:
    """A field that names a pool of the fleet, or none."""
    spec = Spec(Kind.TEXT, help, most=63, optional=True)
    return field(default=None, metadata={"spec": spec})


def choice(
    default: OptionalText,
    choices: tuple[str, ...],
    help: str,
    *,
    aliases: tuple[tuple[str, str], ...] = (),
) -> OptionalText:
    """A field that is one of a few words."""
    spec = Spec(Kind.CHOICE, help, choices=choices, aliases=aliases, optional=default is None)
    return field(default=default, metadata={"spec": spec})


def choices(default: tuple[str, ...], allowed: tuple[str, ...], help: str) -> tuple[str, ...]:
    """A field that holds any of a few words, each at most once."""
    return field(default=default, metadata={"spec": Spec(Kind.CHOICES, help, choices=allowed)})


def levels(least: int, most: int, help: str) -> tuple[int, int]:
    """A field that is an inclusive range of levels."""
    return field(
        default=(least, most), metadata={"spec": Spec(Kind.LEVELS, help, "", 0, MOST_LEVEL)}
    )


def rows(section: type[Row], help: str) -> tuple[Row, ...]:
    """A field that is a list of rows, empty by default."""
    empty: tuple[Row, ...] = ()
    spec = Spec(Kind.ROWS, help, most=MOST_ROWS, section=section)
    return field(default=empty, metadata={"spec": spec})


def group(section: type[Section], help: str) -> Mapping[str, Spec]:
    """Metadata of a field that is a section of its own."""
    return {"spec": Spec(Kind.SECTION, help, section=section)}
