"""One field of the policy on a form: how it stands there, and how it is read back.

A value travels as the document has it (percentages as ``40%``), so that saving a form that
nobody has touched changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from django.utils.datastructures import MultiValueDict
from django.utils.translation import gettext as _

from scheduler.core.policy import Kind, Spec

Posted = MultiValueDict[str, str]
NUMBERS = (Kind.WHOLE, Kind.NUMBER, Kind.SHARE)
YES, NO = "true", "false"


@dataclass(slots=True)
class Shown:
    """A field as the template needs it. ``texts`` are what stands in its inputs: one, or the two
    ends of a range, or the words that are chosen."""

    path: str
    spec: Spec
    texts: list[str]
    choices: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The input's name."""
        return self.path

    @property
    def id(self) -> str:
        """Fit for an HTML id."""
        return "f-" + self.path.replace(".", "-").replace("[", "-").replace("]", "")

    @property
    def key(self) -> str:
        """The field's own name in the file."""
        return self.path.rpartition(".")[2]

    @property
    def help(self) -> str:
        """What it is for, in the reader's language."""
        return _(self.spec.help)

    @property
    def unit(self) -> str:
        """What stands beside the input."""
        return "%" if self.spec.kind is Kind.SHARE else self.spec.unit

    @property
    def widget(self) -> str:
        """Which input: text, number, flag, select, many, range."""
        kind = self.spec.kind
        if kind in NUMBERS:
            return "number"
        if kind is Kind.FLAG:
            return "select" if self.spec.optional else "flag"
        return {Kind.CHOICES: "many", Kind.LEVELS: "range", Kind.CHOICE: "select"}.get(kind, "text")

    @property
    def text(self) -> str:
        """The one text of an input that has one."""
        return self.texts[0] if self.texts else ""

    @property
    def blank(self) -> str:
        """What an empty input means, where it may be empty."""
        return _("empty: none") if self.spec.optional and self.spec.kind in NUMBERS else ""


def choices_of(spec: Spec, pools: Sequence[str]) -> list[tuple[str, str]]:
    """What a select offers."""
    if spec.kind is Kind.TEXT:
        return [("", _("any that fits")), *((name, name) for name in pools)]
    if spec.kind is Kind.FLAG:
        return [("", _("both")), (YES, _("yes")), (NO, _("no"))]
    words = [(word, word) for word in spec.choices]
    return [("", _("any")), *words] if words and spec.optional else words


def texts_of(spec: Spec, value: object) -> list[str]:
    """What stands in the inputs for a value of a document."""
    if value is None:
        return [""]
    if isinstance(value, bool):
        return [YES if value else NO]
    if isinstance(value, list):
        return [str(item) for item in value]
    text = str(value)
    return [text.removesuffix("%") if spec.kind is Kind.SHARE else text]


def posted_texts(spec: Spec, path: str, posted: Posted) -> list[str]:
    """What came back in the inputs."""
    if spec.kind is Kind.LEVELS:
        return [posted.get(f"{path}.least", "").strip(), posted.get(f"{path}.most", "").strip()]
    if spec.kind is Kind.CHOICES:
        return posted.getlist(path)
    if spec.kind is Kind.FLAG and not spec.optional:
        return [YES if path in posted else NO]
    return [posted.get(path, "").strip()]


def value_of(spec: Spec, texts: Sequence[str]) -> object:
    """The document's value for what stands in the inputs; what is nonsense stays text, for the
    schema to refuse."""
    if spec.kind is Kind.CHOICES:
        return list(texts)
    if spec.kind is Kind.LEVELS:
        return [_number(text) for text in texts]
    text = texts[0]
    if not text:
        return None
    if spec.kind is Kind.FLAG:
        return {YES: True, NO: False}.get(text, text)
    if spec.kind is Kind.SHARE:
        return f"{text.removesuffix('%').strip()}%"
    return _number(text) if spec.kind in NUMBERS else text


def _number(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def at(document: Mapping[str, object], path: str) -> object:
    """The value at a path such as ``queues.P0.weight`` of a document's inner mapping."""
    found: object = document
    for name in path.split("."):
        assert isinstance(found, Mapping), path
        found = found[name]
    return found
