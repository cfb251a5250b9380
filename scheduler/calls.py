"""A gateway's hold on one request at the scheduler: the ticket, and what became of it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .core.decisions import Preempt
from .core.events import Adopted, Fault, Finished
from .core.fleet import ReplicaFacts
from .core.ticket import Ticket
from .decision_lines import preempt_line
from .decision_log.row import Why
from .gpu_time import Seat

if TYPE_CHECKING:
    from .actor import Scheduler


@dataclass(frozen=True, slots=True)
class Placed:
    """Run there now. ``waited`` is ns since arrival, ``at`` when it was decided (ns)."""

    facts: ReplicaFacts
    attempt: int
    generation: int
    waited: int
    at: int


@dataclass(frozen=True, slots=True)
class Refusal:
    """Not served: the contract's reason code, and seconds to wait before trying again; None
    where waiting does not help."""

    reason: str
    retry_after: float | None


def _ignore() -> None:
    """Nobody listens yet."""


class Call:
    """One request's ticket while a gateway holds it. The gateway is the truth about it:
    from the calls alone the scheduler's state can be rebuilt."""

    __slots__ = (
        "_future",
        "_scheduler",
        "attempt",
        "began",
        "broken",
        "cached",
        "dispatched",
        "displaced",
        "facts",
        "failures",
        "first",
        "foreseen",
        "foreseen_wait",
        "generation",
        "gpu_seconds",
        "moved",
        "on_preempt",
        "output",
        "paused_for",
        "preempted",
        "produced",
        "promoted",
        "prompt",
        "replica",
        "seat",
        "seen",
        "since",
        "stopped",
        "stopping",
        "ticket",
        "tried",
        "whole",
        "why",
    )

    def __init__(self, ticket: Ticket, scheduler: "Scheduler", why: Why | None = None) -> None:
        self.ticket = ticket
        self.why = why
        self.attempt = 0
        self.generation = 0
        self.replica: str | None = None
        self.facts: ReplicaFacts | None = None
        self.seat: Seat | None = None
        # What a state that is rebuilt has to know: when the present attempt began, how many
        # output tokens of it were seen, since when it waits (ns; 0: since it arrived), the tokens
        # kept of earlier attempts, how many of these broke off and where, how often it was told
        # to stop and when last, and whether it was promoted.
        self.dispatched = self.seen = self.since = self.produced = 0
        self.failures = self.preempted = self.stopped = 0
        self.tried: frozenset[tuple[str, int]] = frozenset()
        self.promoted = False
        self.gpu_seconds = 0.0
        # Told when its slot is wanted for a more urgent request; the holder then calls
        # ``yielded`` as soon as it has stopped, or goes on to its end.
        self.on_preempt: Callable[[], None] = _ignore
        # The preemption under way, the requests for which there were others, and the last
        # request that was paused for this one.
        self.stopping: Preempt | None = None
        self.paused_for: list[str] = []
        self.displaced = ""
        self.prompt = self.output = 0
        # What was foretold when it got its first slot, at ``began`` (ns): the least wait and the
        # service (ns); and whether its answer came to its own end.
        self.began = self.foreseen_wait = self.foreseen = 0
        self.whole = False
        # When the first token of its answer came (ns; 0: not known), and by how many levels
        # feedback has moved the ticket.
        self.first = self.moved = 0
        # Prompt tokens that the engine found in its prefix cache (None: not known).
        self.cached: int | None = None
        # Whether its last attempt broke off in the replica's hands, with nothing to be saved.
        self.broken = False
        self._scheduler = scheduler
        self._future: asyncio.Future[Placed | Refusal] = asyncio.Future()

    async def placed(self) -> Placed | Refusal:
        """Wait for a slot or a refusal."""
        return await self._future

    async def failed(self, fault: Fault, produced: int = 0) -> Placed | Refusal:
        """The attempt broke off and the request can have another, from the start or from
        ``produced`` output tokens; wait for a slot or a refusal."""
        self._scheduler.failed(self, fault, produced)
        return await self._future

    async def yielded(self, produced: int, *, saved: bool = False) -> Placed | Refusal:
        """The attempt has stopped for another request, ``produced`` output tokens being kept,
        and what was computed for them where ``saved``; wait for the next slot or a refusal."""
        self._scheduler.yielded(self, produced, saved=saved)
        return await self._future

    def close(self) -> float:
        """Let go, whatever the state: frees the slot or the place in the queue. Returns
        GPU-seconds. Safe to call twice."""
        return self._scheduler.close(self)

    def resolve(self, outcome: Placed | Refusal) -> None:
        """Tell the waiter. A waiter that was cancelled meanwhile closes the call itself."""
        if isinstance(outcome, Placed):
            self.attempt, self.generation = outcome.attempt, outcome.generation
            self.replica, self.facts = outcome.facts.name, outcome.facts
            self.dispatched, self.seen = outcome.at, 0
        if not self._future.done():
            self._future.set_result(outcome)

    def renew(self, now: int, produced: int) -> None:
        """Wait anew: the attempt is over, and so many output tokens are kept."""
        self.replica, self.since = None, now
        self.produced = max(self.produced, produced)
        self._future = asyncio.Future()

    def note_failure(self, fault: Fault) -> None:
        """The attempt broke off. That its replica was busy, or not to be reached, is no failure of
        the request."""
        if fault is not Fault.BUSY and self.replica is not None:
            self.failures += fault is not Fault.UNREACHABLE
            self.tried |= {(self.replica, self.generation)}

    def give_way(self, decision: Preempt, gaining: "Call | None", *, saved: bool) -> str:
        """It has stopped as it was told to, its state being ``saved`` or not; returns the line that
        says so. The request that gains by it may be gone."""
        self.stopping = None
        self.paused_for.append(decision.beneficiary)
        lane = 0
        if gaining is not None:
            lane, gaining.displaced = gaining.ticket.lane, self.ticket.id
        return preempt_line(
            self.ticket.id,
            self.ticket.lane,
            decision.beneficiary,
            lane,
            saved=saved,
            remain=decision.remain,
        )

    def end(self) -> Finished:
        """The event that tells that its attempt is over."""
        return Finished(
            self.ticket.id,
            self.attempt,
            self.prompt,
            self.output,
            self.broken,
            self.first,
            self.cached,
            # Whoever left before its first byte, or was at fault itself, has shown nothing.
            answered=self.whole or bool(self.first),
        )

    def adoption(self) -> Adopted:
        """The event that tells a state being rebuilt about this call."""
        return Adopted(
            ticket=self.ticket,
            attempt=self.attempt,
            replica=self.replica,
            generation=self.generation,
            facts=self.facts,
            dispatched=self.dispatched,
            seen=self.seen,
            since=self.since,
            produced=self.produced,
            failures=self.failures,
            tried=self.tried,
            preempted=self.preempted,
            stopped=self.stopped,
            stopping=self.stopping is not None and self.stopping.attempt == self.attempt,
            promoted=self.promoted,
        )
