"""How far limits on rates are slowed for P2: halved again and again while P0 waits too long, and
given back step by step afterwards."""

from typing import TYPE_CHECKING

from .decisions import Decision, Kind, Notice, Throttle

if TYPE_CHECKING:
    from .state import State

MS = 1_000_000
NS = 1_000_000_000
# Of a rate, P2 keeps at least this share.
LEAST_SHARE = 0.01


def slow_p2(state: "State", out: list[Decision]) -> None:
    """Set P2's share of its rates by whether there is pressure now."""
    pressure, rules = state.pressure, state.policy.backpressure.throttle
    slows = "throttle_P2" in state.policy.backpressure.action
    floor = max(LEAST_SHARE, rules.floor)
    share = pressure.share
    if not slows:
        share = 1.0
    elif state.now >= pressure.turn:
        pressure.turn = state.now + int(rules.interval_s * NS)
        share = max(floor, share / 2) if pressure.active else share + rules.step
        # Short in decimals, since refill is counted in whole numbers.
        share = min(1.0, round(share, 4))
    least = min(share, floor) if pressure.active and slows else share
    if share < pressure.share:
        cause = f"P0 waits {pressure.wait // MS} ms"
        out.append(Notice(Kind.THROTTLED, "P2", cause, round(100 * share)))
    elif share == 1.0 > pressure.share:
        out.append(Notice(Kind.THROTTLED, "P2", "P0 has not waited for a while", 100))
    if (share, least) != (pressure.share, pressure.least):
        pressure.share, pressure.least = share, least
        out.append(Throttle(share, least))
