"""Fields that the policy no longer has.

A file that names one is refused and told why, unless what it asks for is what holds anyway; a
version that was stored with one still loads, for what it asked for has no meaning any more.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Removed:
    """``why`` a field has gone, as the end of a sentence. One whose value is ``holds`` (None: none
    is) asks for what holds now."""

    why: str
    holds: object = None

    def allows(self, value: object) -> bool:
        """Whether the value says what holds anyway."""
        return self.holds is not None and type(value) is type(self.holds) and value == self.holds


LOAD = Removed("load raises nobody")
RULES, ACTION = "scheduler.backpressure", "scale_gpu"
CARDS = Removed(
    f"cards follow all work; leave {ACTION} out of {RULES}.action to have none do", holds=True
)
SWITCHES = (f"{RULES}.scale.by_p0_backlog", f"{RULES}.scale.by_load")
# By path; also of whole sections.
REMOVED: Mapping[str, Removed] = {
    "scheduler.feedback.load_high": LOAD,
    "scheduler.feedback.load_clear": LOAD,
    **dict.fromkeys(SWITCHES, CARDS),
}


def translated(document: object) -> object:
    """A stored document in the words of now: where all that made cards come and go was off, there
    is no such action."""
    if any(_value(document, path) is not False for path in SWITCHES):
        return document
    known = deepcopy(document)
    action = _value(known, f"{RULES}.action")
    if isinstance(action, list) and ACTION in action:
        action.remove(ACTION)
    return known


def _value(document: object, path: str) -> object:
    """What a document has at a path, None where it has nothing."""
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    return document
