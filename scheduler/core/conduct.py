"""How one model's requests of a business have fared of late: counts that ``feedback`` judges.

Noting one is a few additions; what they mean is looked at every so often.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from .standing import Tally, Trouble, Witness

if TYPE_CHECKING:
    from .events import Finished
    from .request import Request
    from .state import State


class Cause(StrEnum):
    """Why work has more or less weight, or another level, than by itself."""

    LATE = "late"  # it misses its budgets
    DROPPED = "dropped"  # it is refused too often
    COST = "cost"  # it costs more than it says
    BACKLOG = "backlog"  # its model's queue is long, mostly of its own requests
    NONE = "none"


@dataclass(slots=True, eq=False)
class Conduct:
    """Counts fade with the policy's window. ``ended`` requests ended well. Of the ``timed``,
    which have a budget of their business's or lane's, ``slow`` and ``late`` took longer than
    two multiples of it; ``dropped`` ones were refused for load. ``cost`` is the sum of what
    ``costed`` requests really cost, as multiples of what was declared.

    ``queued`` requests wait, by lane, and ask for ``queued_tokens`` of context. It is raised by
    ``-steps`` for a ``cause``, which is weight, or lowered by ``steps``, which is weight or levels;
    ``wish`` says which way it should go since ``since`` (ns). ``pace`` is the weight of its
    business between businesses, as feedback leaves it.

    ``outcomes`` counts its requests of late and those that ended badly, ``witness`` has the
    replicas that it was served well on last, ``troubles`` those on which its requests fail."""

    pace: float = 1.0
    ended: float = 0.0
    timed: float = 0.0
    slow: float = 0.0
    late: float = 0.0
    dropped: float = 0.0
    costed: float = 0.0
    cost: float = 0.0
    queued: list[int] = field(default_factory=lambda: [0, 0, 0])
    queued_tokens: list[int] = field(default_factory=lambda: [0, 0, 0])
    steps: int = 0
    cause: Cause = Cause.NONE
    wish: int = 0
    since: int = 0
    outcomes: Tally = field(default_factory=Tally)
    witness: Witness = field(default_factory=Witness)
    troubles: dict[str, Trouble] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether there is anything to judge, or to take back."""
        return bool(self.ended or self.dropped or self.steps)

    @property
    def drop_rate(self) -> float:
        """The share of its requests that were refused."""
        return self.dropped / ((self.ended + self.dropped) or 1.0)

    def fade(self, keep: float) -> None:
        """Let so much of the counts stay; what is less than half a request is nothing."""
        self.timed *= keep
        self.slow *= keep
        self.late *= keep
        self.costed *= keep
        self.cost *= keep
        ended, dropped = self.ended * keep, self.dropped * keep
        self.ended = ended if ended > 0.5 else 0.0
        self.dropped = dropped if dropped > 0.5 else 0.0


def note_missed(request: "Request") -> None:
    """A request waits that can't be in time any more. That it ended late is not counted again."""
    request.missed = True
    if not request.ticket.budget_named:
        conduct = request.conduct
        conduct.timed += 1.0
        conduct.late += 1.0
        conduct.slow += 1.0


def note_end(state: "State", request: "Request", event: "Finished") -> None:
    """A request has ended well: was it in time, and did it cost what it had declared?"""
    ticket, conduct = request.ticket, request.conduct
    budget = ticket.budget
    # What a caller asks for by itself is no measure of what it should have.
    if budget is not None and not (ticket.budget_named or request.missed):
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
        # Who sets no bound has declared nothing. Cost is time, as far as it is known.
        effort = state.estimates.effort
        declared = effort(ticket.model, ticket.prompt, ticket.output)
        if declared:
            conduct.cost += effort(ticket.model, event.prompt, event.output) / declared
            conduct.costed += 1.0
