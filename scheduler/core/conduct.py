"""How one model's requests of a business have fared of late: counts that ``feedback`` judges.

Noting one is a few additions; what they mean is looked at every so often.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from .estimates import PREFILL_PER_DECODE

if TYPE_CHECKING:
    from .events import Finished
    from .request import Request
    from .state import State


class Cause(StrEnum):
    """Why work is moved from the level that it was classified to."""

    LATE = "late"  # it misses its budgets
    DROPPED = "dropped"  # it is refused too often
    LOAD = "load"  # the replicas are busy, and somebody waits for it
    COST = "cost"  # it costs more than it says
    BACKLOG = "backlog"  # its model's queue is long, mostly of its own requests
    NONE = "none"


@dataclass(slots=True, eq=False)
class Conduct:
    """Counts fade with the policy's window. ``ended`` requests ended well, ``urgent`` of them
    realtime. Of the ``timed``, which have a budget, ``slow`` and ``late`` took longer than
    two multiples of it; ``dropped`` ones were refused for load. ``cost`` is the sum of what
    ``costed`` requests really cost, as multiples of what was declared.

    ``level`` is how many levels later arrivals are moved, below 0 to more urgent ones, for a
    ``cause``; ``wish`` which way they should be since ``since`` (ns). ``pace`` is the weight of
    its business between businesses, as feedback leaves it."""

    pace: float = 1.0
    ended: float = 0.0
    urgent: float = 0.0
    timed: float = 0.0
    slow: float = 0.0
    late: float = 0.0
    dropped: float = 0.0
    costed: float = 0.0
    cost: float = 0.0
    level: int = 0
    cause: Cause = Cause.NONE
    wish: int = 0
    since: int = 0

    @property
    def known(self) -> bool:
        """Whether there is anything to judge, or to take back."""
        return bool(self.ended or self.dropped or self.level)

    @property
    def drop_rate(self) -> float:
        """The share of its requests that were refused."""
        return self.dropped / ((self.ended + self.dropped) or 1.0)

    def fade(self, keep: float) -> None:
        """Let so much of the counts stay; what is less than half a request is nothing."""
        self.urgent *= keep
        self.timed *= keep
        self.slow *= keep
        self.late *= keep
        self.costed *= keep
        self.cost *= keep
        ended, dropped = self.ended * keep, self.dropped * keep
        self.ended = ended if ended > 0.5 else 0.0
        self.dropped = dropped if dropped > 0.5 else 0.0


def note_end(state: "State", request: "Request", event: "Finished") -> None:
    """A request has ended well: was it in time, and did it cost what it had declared?"""
    ticket, conduct = request.ticket, request.conduct
    if ticket.realtime:
        conduct.urgent += 1.0
    budget = ticket.budget
    if budget is not None:
        rules = state.policy.feedback
        if state.policy.queue(request.lane).budget_on == "completion":
            took = state.now - ticket.arrived
        else:
            # Where nobody says when the answer began, all but the wait is left out.
            took = (event.first or request.dispatched) - ticket.arrived
        conduct.timed += 1.0
        if took >= budget * rules.p95_factor:
            conduct.late += 1.0
            conduct.slow += 1.0
        elif took > budget * rules.p95_clear:
            conduct.slow += 1.0
    if event.output and ticket.output:
        # Who sets no bound has declared nothing. Cost is work as ``estimates`` counts it.
        real = event.output + event.prompt / PREFILL_PER_DECODE
        conduct.cost += real / (ticket.output + ticket.prompt / PREFILL_PER_DECODE)
        conduct.costed += 1.0
