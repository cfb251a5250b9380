"""The policy's form: every field of the schema by topic, made from the schema alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from django.utils.datastructures import MultiValueDict
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from scheduler.core.policy import (
    Kind,
    MappingRow,
    Policy,
    PolicyError,
    Problem,
    Section,
    Spec,
    from_document,
    specs,
    to_document,
)

from .fields import Posted, Shown, at, choices_of, posted_texts, texts_of, value_of
from .topics import TOPICS
from .words import told

ROOT = "scheduler"
MAPPING = "classification.mapping"
BLANK_ROWS = 3
MOST_ROWS = 500


@dataclass(slots=True)
class Group:
    """Fields of one section, and its sections."""

    path: str
    title: str
    fields: list[Shown] = field(default_factory=list)
    groups: list["Group"] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TopicShown:
    """One topic with what is in it; ``wrong`` is the number of fields with a problem."""

    key: str
    title: Promise
    about: Promise
    group: Group
    wrong: int = 0


@dataclass(slots=True)
class Row:
    """One row of the mapping table."""

    index: int
    fields: list[Shown]
    place: str = ""


class PolicyForm:
    """Shows a policy, or what somebody made of it; ``policy`` is there once it is valid."""

    def __init__(
        self, policy: Policy, pools: list[str], posted: "MultiValueDict[str, str] | None" = None
    ) -> None:
        self.policy: Policy | None = None
        self.problems: list[str] = []
        self.rows: list[Row] = []
        self._pools = pools
        self._posted: Posted | None = posted
        document = to_document(policy)[ROOT]
        assert isinstance(document, dict), "a policy's document is a mapping"
        self._document: Mapping[str, object] = document
        self._fields: dict[str, Shown] = {}
        self._groups: dict[str, Group] = {}
        self.topics = [
            self._topic(topic.key, topic.title, topic.about, topic.names) for topic in TOPICS
        ]
        self._make_rows()

    def is_valid(self) -> bool:
        """Read what was posted; where it is no policy, every problem stands at its field."""
        assert self._posted is not None, "nothing was posted"
        try:
            self.policy = from_document({ROOT: self._read(Policy, "")})
        except PolicyError as error:
            for problem in error.problems:
                self._note(problem)
            for topic in self.topics:
                topic.wrong = sum(1 for each in _all_fields(topic.group) if each.errors)
            return False
        return True

    def note(self, problem: Problem) -> None:
        """A problem that was found later, at its field."""
        self._note(problem)

    def _topic(
        self, key: str, title: Promise, about: Promise, names: tuple[str, ...]
    ) -> TopicShown:
        top = Group("", "")
        for name, spec in specs(Policy):
            if name in names:
                self._place(top, name, spec)
        return TopicShown(key, title, about, top)

    def _place(self, group: Group, path: str, spec: Spec) -> None:
        if spec.kind is Kind.ROWS:
            return
        if spec.kind is Kind.SECTION and spec.section is not None:
            inner = Group(path, _(spec.help))
            self._groups[path] = inner
            group.groups.append(inner)
            for name, each in specs(spec.section):
                self._place(inner, f"{path}.{name}", each)
            return
        shown = self._shown(path, spec, at(self._document, path))
        self._fields[path] = shown
        group.fields.append(shown)

    def _shown(self, path: str, spec: Spec, value: object) -> Shown:
        posted = self._posted
        texts = texts_of(spec, value) if posted is None else posted_texts(spec, path, posted)
        offered = choices_of(spec, self._pools)
        if spec.kind is Kind.TEXT and texts[0] and (texts[0], texts[0]) not in offered:
            # A pool that has left the fleet since must not vanish from the form.
            offered.append((texts[0], texts[0]))
        return Shown(path, spec, texts, offered)

    def _make_rows(self) -> None:
        held = cast("list[dict[str, object]]", at(self._document, MAPPING))
        count = len(held) + BLANK_ROWS
        if self._posted is not None:
            given = self._posted.get("mapping-rows", "")
            count = (
                min(int(given), MOST_ROWS + BLANK_ROWS)
                if given.isascii() and given.isdigit()
                else 0
            )
        for index in range(count):
            values = held[index] if self._posted is None and index < len(held) else {}
            fields = [
                self._shown(f"{MAPPING}[{index}].{name}", spec, values.get(name))
                for name, spec in specs(MappingRow)
            ]
            place = str(index + 1)
            if self._posted is not None:
                place = self._posted.get(f"{MAPPING}[{index}].place", place)
            self.rows.append(Row(index, fields, place))

    def _read(self, section: type[Section], path: str) -> dict[str, object]:
        found: dict[str, object] = {}
        for name, spec in specs(section):
            here = f"{path}.{name}" if path else name
            if spec.kind is Kind.SECTION and spec.section is not None:
                found[name] = self._read(spec.section, here)
            elif spec.kind is Kind.ROWS:
                found[name] = self._read_rows()
            else:
                value = value_of(spec, self._fields[here].texts)
                # Empty is no value of a field that may not be empty.
                found[name] = "" if value is None and not spec.optional else value
        return found

    def _read_rows(self) -> list[dict[str, object]]:
        """The rows that have a level, in the order of their places; the others are no rows."""
        used = [row for row in self.rows if row.fields[-1].text]
        used.sort(key=lambda row: (_place(row.place), row.index))
        for index, row in enumerate(used):
            for shown in row.fields:
                self._fields[f"{MAPPING}[{index}].{shown.key}"] = shown
        return [
            {shown.key: value_of(shown.spec, shown.texts) for shown in row.fields} for row in used
        ]

    def _note(self, problem: Problem) -> None:
        path = problem.path.removeprefix(f"{ROOT}.")
        shown = self._fields.get(path)
        text = told(problem, None if shown is None else shown.spec)
        if shown is not None:
            shown.errors.append(text)
        elif path in self._groups:
            self._groups[path].errors.append(text)
        else:
            self.problems.append(text)


def _place(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else MOST_ROWS


def _all_fields(group: Group) -> Iterator[Shown]:
    yield from group.fields
    for inner in group.groups:
        yield from _all_fields(inner)
