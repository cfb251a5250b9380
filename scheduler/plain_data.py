"""Typed reading of plain data (what YAML and JSON hold), with a path for every problem."""

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from typing import TypeVar

from scheduler.core.policy import Problem
from scheduler.core.policy.document import shown

T = TypeVar("T")
OptionalText = TypeVar("OptionalText", str, str | None)
OptionalInt = TypeVar("OptionalInt", int, int | None)
OptionalFloat = TypeVar("OptionalFloat", float, float | None)
OptionalNames = TypeVar("OptionalNames", tuple[str, ...], tuple[str, ...] | None)

PERCENT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,20})?%")
MOST_ITEMS = 10_000


class Node:
    """A mapping of plain data. Each reader takes one key of it.

    What is missing takes the default; what is wrong is noted in ``problems`` and takes the
    default too, so that one pass finds every problem. null is allowed where it is the
    default. ``close`` notes the keys that nobody took.
    """

    def __init__(self, value: object, path: str, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems
        self._taken: list[str] = []
        self._items: dict[str, object] = {}
        if isinstance(value, dict):
            self._items = value
        else:
            self.refuse("", "a mapping", value)
            # What its keys would have held is beside the point.
            self.problems = []

    def note(self, key: str, message: str) -> None:
        """Add a problem of ``key``, or of the whole mapping when that is empty."""
        self.problems.append(Problem(self._path(key), message))

    def refuse(self, key: str, allowed: str, value: object) -> None:
        """Note that ``value`` is not what the key may hold."""
        self.note(key, f"must be {allowed}; got {shown(value)}")

    def present(self) -> list[str]:
        """The keys that are there, in their order."""
        return list(self._items)

    def has(self, key: str) -> bool:
        """Whether the key is there, be it with null."""
        return key in self._items

    def text(
        self, key: str, default: OptionalText, pattern: re.Pattern[str], allowed: str
    ) -> OptionalText:
        """A text that matches ``pattern`` as a whole."""

        def parse(value: object) -> str:
            if not isinstance(value, str) or not pattern.fullmatch(value):
                raise ValueError(allowed)
            return value

        return self._take(key, default, parse)

    def needed(self, key: str, pattern: re.Pattern[str], allowed: str) -> str:
        """The same, for a key that must be there."""
        if not self.has(key):
            self._taken.append(key)
            self.note(key, f"is missing: must be {allowed}")
            return ""
        return self.text(key, "", pattern, allowed)

    def needed_choice(self, key: str, choices: Sequence[str]) -> str:
        """One of ``choices``, for a key that must be there."""
        return self.needed(key, _any_of(choices), f"one of {', '.join(choices)}")

    def choice(self, key: str, default: OptionalText, choices: Sequence[str]) -> OptionalText:
        """One of ``choices``."""
        return self.text(key, default, _any_of(choices), f"one of {', '.join(choices)}")

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""

        def parse(value: object) -> bool:
            if not isinstance(value, bool):
                raise ValueError("true or false")  # noqa: TRY004 - the caller's one kind of error
            return value

        return self._take(key, default, parse)

    def whole(self, key: str, default: OptionalInt, least: int, most: int) -> OptionalInt:
        """A whole number from ``least`` to ``most``."""

        def parse(value: object) -> int:
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise ValueError(f"a whole number of at least {least} and at most {most}")
            return value

        return self._take(key, default, parse)

    def number(self, key: str, default: OptionalFloat, least: float, most: float) -> OptionalFloat:
        """A number from ``least`` to ``most``."""
        allowed = f"a number of at least {least:g} and at most {most:g}"

        def parse(value: object) -> float:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(allowed)  # noqa: TRY004 - the caller's one kind of error
            if not (math.isfinite(value) and least <= value <= most):
                raise ValueError(allowed)
            return float(value)

        return self._take(key, default, parse)

    def share(self, key: str) -> float | None:
        """A percentage such as "25%", as a ratio 0-1; a plain 0 will do for none at all."""

        def parse(value: object) -> float:
            if value == 0 and not isinstance(value, bool):
                return 0.0
            if isinstance(value, str) and PERCENT.fullmatch(value):
                ratio = Decimal(value[:-1]).scaleb(-2)
                if ratio <= 1:
                    return float(ratio)
            raise ValueError('a percentage such as "25%", at most "100%"')

        return self._take(key, None, parse)

    def money(self, key: str) -> Decimal | None:
        """An amount of at least 0, exact to six decimal places; long ones stand in quotes."""
        allowed = "an amount of at least 0 with at most 6 decimal places"

        def parse(value: object) -> Decimal:
            if not isinstance(value, bool) and isinstance(value, int | float | str):
                try:
                    amount = Decimal(str(value))
                except InvalidOperation:
                    raise ValueError(allowed) from None
                if amount.is_finite() and 0 <= amount < 10**14 and amount == round(amount, 6):
                    # Adding nothing turns a negative zero into zero.
                    return amount + 0
            raise ValueError(allowed)

        return self._take(key, None, parse)

    def names(
        self, key: str, default: OptionalNames, pattern: re.Pattern[str], allowed: str
    ) -> OptionalNames:
        """A list of texts that each match ``pattern``, none of them twice."""

        def parse(value: object) -> tuple[str, ...]:
            if not isinstance(value, list) or len(value) > MOST_ITEMS:
                raise ValueError(f"a list, each item {allowed}")
            for item in value:
                if not isinstance(item, str) or not pattern.fullmatch(item):
                    raise ValueError(f"a list, each item {allowed}")
            if len(set(value)) < len(value):
                raise ValueError("a list with nothing in it twice")
            return tuple(value)

        return self._take(key, default, parse)

    def plain(self, key: str) -> object:
        """The value as it is, for a caller that reads it by itself; None when it is not there."""
        self._taken.append(key)
        return self._items.get(key)

    def children(self, key: str) -> list["Node"] | None:
        """A list of mappings; None when the key is not there."""
        value = self.plain(key)
        if key not in self._items:
            return None
        if not isinstance(value, list):
            self.note(key, f"must be a list; got {shown(value)}")
            return []
        return [
            Node(item, f"{self._path(key)}[{place}]", self.problems)
            for place, item in enumerate(value)
        ]

    def child(self, key: str) -> "Node | None":
        """A mapping; None when the key is not there or null."""
        value = self.plain(key)
        return None if value is None else Node(value, self._path(key), self.problems)

    def close(self) -> None:
        """Note every key that no reader has taken."""
        for key in self._items:
            if key not in self._taken:
                near = get_close_matches(key, self._taken, n=1, cutoff=0.5)
                hint = f" did you mean {near[0]}?" if near else ""
                self.note(key, f"unknown key;{hint} allowed are {', '.join(self._taken)}")

    def _take(self, key: str, default: T, parse: Callable[[object], T]) -> T:
        self._taken.append(key)
        value = self._items.get(key, default)
        if key not in self._items or (value is None and default is None):
            return default
        try:
            return parse(value)
        except ValueError as error:
            null = ", or null" if default is None else ""
            self.refuse(key, f"{error}{null}", value)
            return default

    def _path(self, key: str) -> str:
        if not key:
            return self.path
        return f"{self.path}.{key}" if self.path else key


def _any_of(choices: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, choices)))
