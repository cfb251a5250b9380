"""How far limits on rates are slowed for P2: halved again and again while P0 of a model waits too
long, and given back step by step afterwards."""

from typing import TYPE_CHECKING

from .decisions import Decision, Kind, Notice, Throttle

if TYPE_CHECKING:
    from .pressure import Pressed
    from .state import State

MS = 1_000_000
NS = 1_000_000_000
# Of a rate, P2 keeps at least this share.
LEAST_SHARE = 0.01


def slow_p2(state: "State", model: str, found: "Pressed", out: list[Decision]) -> None:
    """Set the share of its rates that P2 has beside this model by whether its P0 waits too
    long now."""
    rules = state.policy.backpressure.throttle
    slows = "throttle_P2" in state.policy.backpressure.action
    floor = max(LEAST_SHARE, rules.floor)
    share = found.share
    if not slows:
        share = 1.0
    elif state.now >= found.turn:
        found.turn = state.now + int(rules.interval_s * NS)
        share = max(floor, share / 2) if found.active else share + rules.step
        # Short in decimals, since refill is counted in whole numbers.
        share = min(1.0, round(share, 4))
    least = min(share, floor) if found.active and slows else share
    if share < found.share:
        cause = f"P0 waits {found.wait // MS} ms"
        out.append(Notice(Kind.THROTTLED, model, cause, round(100 * share)))
    elif share == 1.0 > found.share:
        out.append(Notice(Kind.THROTTLED, model, "P0 has not waited for a while", 100))
    told = (found.share, found.least, found.slowed)
    found.share, found.least = share, least
    found.slowed = found.models if share < 1.0 else frozenset()
    if told != (share, least, found.slowed):
        out.append(Throttle(model, share, least, found.slowed))


def held(state: "State") -> list[Throttle]:
    """The shares that hold, once more: whoever keeps to them may not have heard of the last."""
    return [
        Throttle(model, found.share, found.least, found.slowed)
        for model, found in state.pressure.models.items()
    ]


def eased(state: "State") -> list[Throttle]:
    """All rates in full, at once: for who knows nothing of P0's waits any more."""
    return [Throttle(model, 1.0, 1.0, frozenset()) for model in state.pressure.models]
