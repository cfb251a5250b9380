"""How states, shares and verdicts of the operators' pages read."""

from collections.abc import Iterator, Mapping

from django import template
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from .figures import NOTHING, duration

register = template.Library()

CANARY_STATES = {
    "running": _lazy("Running"),
    "rolled_back": _lazy("Rolled back by itself"),
    "ended": _lazy("Ended"),
    "superseded": _lazy("Ended by an activation"),
}
RUN_STATES = {
    "waiting": _lazy("Waiting"),
    "running": _lazy("Running"),
    "done": _lazy("Done"),
    "failed": _lazy("Failed"),
}
VERDICTS = {
    "better": _lazy("Better"),
    "worse": _lazy("Worse"),
    "same": _lazy("About the same"),
    "none": _lazy("No requests"),
}


@register.filter
def canary_state(state: str) -> str:
    """How far a canary is."""
    return str(CANARY_STATES.get(state, state))


@register.filter
def run_state(state: str) -> str:
    """How far a what-if run is."""
    return str(RUN_STATES.get(state, state))


@register.filter
def verdict(word: str) -> str:
    """What a comparison says."""
    return str(VERDICTS.get(word, word))


@register.filter
def share(ratio: float | None) -> str:
    """A ratio 0-1 in per cent; a dash of nothing."""
    if ratio is None:
        return NOTHING
    return _("%(ratio)s %%") % {"ratio": formats.number_format(100 * ratio, 1)}


@register.filter
def signed(ms: float | None) -> str:
    """A difference of milliseconds with its sign."""
    if ms is None:
        return NOTHING
    sign = "\N{MINUS SIGN}" if ms < 0 else "+"
    return f"{sign}{duration(abs(ms))}"


@register.filter
def because(found: Mapping[str, object]) -> str:
    """The figure that a verdict rests on, before and after."""
    before, after = found["active"], found["draft"]
    if found["word"] == "none":
        return ""
    text = {
        "refused": _("Refused: %(before)s, would be %(after)s"),
        "late": _("Late: %(before)s, would be %(after)s"),
        "wait": _("P95 wait: %(before)s, would be %(after)s"),
    }[str(found["because"])]
    shown = duration if found["because"] == "wait" else share
    return text % {"before": shown(_number(before)), "after": shown(_number(after))}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


DECISIONS = {
    "dispatch": _lazy("Started"),
    "refuse": _lazy("Refused"),
    "preempt": _lazy("Paused for a more urgent one"),
    "promote": _lazy("Promoted"),
    "degrade": _lazy("A lighter model answers"),
    "outcome": _lazy("Outcome of a pause"),
    "replica": _lazy("Replica"),
}


@register.filter
def decision(kind: str) -> str:
    """A kind of decision in words."""
    return str(DECISIONS.get(kind, kind))


@register.filter
def details(held: Mapping[str, object]) -> list[tuple[str, str]]:
    """Names and values on one line each, without those that are empty; what is inside is told
    by its path."""
    return [(name, text) for name, text in _details("", held) if text]


def _details(path: str, value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from _details(f"{path}.{name}" if path else str(name), inner)
    elif isinstance(value, list):
        yield path, ", ".join(_plain(item) for item in value)
    elif path:
        yield path, "" if value is None or value == {} else str(value)


def _plain(item: object) -> str:
    return " ".join(str(part) for part in item) if isinstance(item, list) else str(item)
