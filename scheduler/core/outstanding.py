"""What a replica has in hand, and how its time is shared out among it.

A prompt is computed as a whole before its answer begins, and prompts that are computed at once
share the card, or wait for each other, as the engine has it. So what a new request meets there is
the work of the prefills that are *outstanding*: dispatched, and without a first token yet.

How long a prefill takes by itself is told by a clock that runs at 1 / (number outstanding), where
they share the card: it passes by as much, between a request's start and its first token, as the
card has worked for that request. Where they wait for each other, it is the time since the one
before it was done.
"""

from typing import TYPE_CHECKING

from .replica import Replica

if TYPE_CHECKING:
    from .request import Request

# A replica that is to prefill for longer than this (ns) has enough to do: more would only wait
# there, where nobody can put urgent work before it.
AHEAD = 100_000_000.0
# A prompt so many times shorter than what is outstanding does not wait for that where prompts share
# the card.
SHORT = 4.0
# A first token that is so many times later than it should be will not be told.
PATIENCE = 2.0
SLACK = 50_000_000


def advance(replica: Replica, now: int) -> None:
    """Bring the replica's clocks up to ``now``. To be called before what it runs changes."""
    passed = now - replica.touched
    if passed > 0:
        replica.touched = now
        replica.area += passed * replica.running
        if replica.prefills:
            replica.shared += passed / len(replica.prefills)


def begin(replica: Replica, request: "Request", prefill_ns: float, now: int) -> int:
    """A request that is prefilled starts; it is counted as running already. Returns until when
    (ns) its first token is waited for, or is taken to have come where nobody will tell."""
    urgent, middle, low = replica.prefill_ns
    outstanding = urgent + middle + low
    request.ahead = remaining(replica, now) if outstanding else 0.0
    until = now + int(outstanding + prefill_ns)
    if request.ticket.streamed:
        until = now + int(PATIENCE * (until - now)) + SLACK
    replica.prefills[request.ticket.id] = (prefill_ns, until, replica.shared, request.lane)
    replica.prefill_ns[request.lane] += prefill_ns
    request.first = 0
    request.mark = replica.shared
    return until


def remaining(replica: Replica, now: int) -> float:
    """What is left of the prefills outstanding (ns)."""
    advance(replica, now)
    return sum(
        max(0.0, held - (replica.shared - mark)) for held, _, mark, _ in replica.prefills.values()
    )


def first_token(replica: Replica, request: "Request", now: int, *, serial: bool) -> None:
    """Its first token is there: its prefill is over, and has taken ``request.prefill`` ns.
    ``serial``: prompts wait for each other there."""
    if request.first:
        return
    advance(replica, now)
    request.first = now
    # One that was given up has shared the card for a time that nobody counted.
    if serial or request.ticket.id not in replica.prefills:
        request.prefill = now - max(request.dispatched, replica.prefilled)
    else:
        request.prefill = replica.shared - request.mark
    request.mark, replica.prefilled = replica.area, now
    _over(replica, request.ticket.id)


def leave(replica: Replica, request: "Request", now: int) -> None:
    """It leaves the replica, which still counts it as running."""
    advance(replica, now)
    _over(replica, request.ticket.id)


def beside(replica: Replica, request: "Request", now: int) -> float:
    """How many ran there in the mean, itself included, since its first token."""
    advance(replica, now)
    passed = now - request.first
    return (replica.area - request.mark) / passed if passed > 0 else float(replica.running)


def tidy(replica: Replica, now: int) -> bool:
    """Believe no longer in prefills whose end nobody tells; whether there were any."""
    late = [name for name, (_, until, _, _) in replica.prefills.items() if until <= now]
    if late:
        advance(replica, now)
        for name in late:
            _over(replica, name)
    return bool(late)


def closed(replica: Replica, lane: int) -> bool:
    """Whether work as urgent as that of the lane, or more so, has enough to prefill there."""
    ns = replica.prefill_ns
    if lane == 0:
        return ns[0] > AHEAD
    return ns[0] + ns[1] > AHEAD if lane == 1 else ns[0] + ns[1] + ns[2] > AHEAD


def wait_for_others(replica: Replica, prefill_ns: float, serial: float) -> tuple[float, float]:
    """How long (ns) a new prefill of so many ns waits for those outstanding, and by how much it
    makes these later in all. ``serial``: how far prompts wait for each other (1) instead of sharing
    the card (0), where a short one goes before what is left of others."""
    if not replica.prefills:
        return 0.0, 0.0
    outstanding = sum(replica.prefill_ns)
    shared = min(outstanding, prefill_ns * len(replica.prefills))
    return serial * outstanding + (1.0 - serial) * shared, (1.0 - serial) * shared


def _over(replica: Replica, name: str) -> None:
    found = replica.prefills.pop(name, None)
    if found is not None:
        replica.prefill_ns[found[3]] -= found[0]
        if not replica.prefills:
            replica.prefill_ns = [0.0, 0.0, 0.0]  # whatever rounding has left
