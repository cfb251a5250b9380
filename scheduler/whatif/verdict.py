"""What the comparison says, lane by lane. Pure."""

from typing import TypedDict

from metering.core.facts import LANES

from .figures import LaneFigures, Side

# A replay agrees with what happened within the larger of these.
AGREE_RATIO = 0.15
AGREE_MS = 20.0
# A smaller change of a wait, or of a share, is none worth a word.
CHANGE_RATIO = 0.10
CHANGE_MS = 20.0
CHANGE_SHARE = 0.005


class Agreement(TypedDict):
    """How far the replay under the active policy is from what happened, in P95 wait (ms)."""

    recorded_ms: float | None
    replayed_ms: float | None
    difference_ms: float | None
    allowed_ms: float
    agrees: bool


class Verdict(TypedDict):
    """``word`` is better, worse, same or none (nothing came); ``because`` names the figure
    that decided: ``refused``, ``late``, ``wait`` or nothing."""

    word: str
    because: str
    active: float | None
    draft: float | None


def agreement(happened: Side, active: Side) -> dict[str, Agreement]:
    """By lane."""
    return {
        lane: _agreement(happened["lanes"][lane]["p95_ms"], active["lanes"][lane]["p95_ms"])
        for lane in LANES
    }


def _agreement(recorded: float | None, replayed: float | None) -> Agreement:
    if recorded is None or replayed is None:
        same = recorded is None and replayed is None
        return {
            "recorded_ms": recorded,
            "replayed_ms": replayed,
            "difference_ms": None,
            "allowed_ms": AGREE_MS,
            "agrees": same,
        }
    difference, allowed = replayed - recorded, max(AGREE_MS, AGREE_RATIO * recorded)
    return {
        "recorded_ms": recorded,
        "replayed_ms": replayed,
        "difference_ms": round(difference, 1),
        "allowed_ms": round(allowed, 1),
        "agrees": abs(difference) <= allowed,
    }


def verdicts(active: Side, draft: Side) -> dict[str, Verdict]:
    """By lane; a request counts in the lane that each policy gives it."""
    return {lane: _verdict(active["lanes"][lane], draft["lanes"][lane]) for lane in LANES}


def _verdict(active: LaneFigures, draft: LaneFigures) -> Verdict:
    if not active["requests"] and not draft["requests"]:
        return {"word": "none", "because": "", "active": None, "draft": None}
    shares = (
        ("refused", _refused(active), _refused(draft)),
        ("late", active["late_ratio"], draft["late_ratio"]),
    )
    for name, before, after in shares:
        if before is not None and after is not None and abs(after - before) > CHANGE_SHARE:
            word = "worse" if after > before else "better"
            return {"word": word, "because": name, "active": before, "draft": after}
    before, after = active["p95_ms"], draft["p95_ms"]
    word = "same"
    if before is not None and after is not None:
        change = after - before
        if abs(change) > max(CHANGE_MS, CHANGE_RATIO * before):
            word = "worse" if change > 0 else "better"
    return {"word": word, "because": "wait", "active": before, "draft": after}


def _refused(lane: LaneFigures) -> float:
    return round(lane["refused"] / lane["requests"], 4) if lane["requests"] else 0.0
