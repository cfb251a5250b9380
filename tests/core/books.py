"""The random world's own books, kept from the scheduler's decisions alone."""

from hypothesis.stateful import RuleBasedStateMachine

from scheduler.core import events
from scheduler.core.decisions import (
    Adjust,
    Decision,
    Degrade,
    Dispatch,
    Notice,
    Preempt,
    Promote,
    Reject,
    Scale,
    Throttle,
    Trip,
    WakeAt,
)
from scheduler.core.invariants import (
    check_limits,
    check_order,
    check_preempted,
    check_promoted,
)
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

from .world_parts import POOLS, fleet


class Books(RuleBasedStateMachine):
    """Who waits, who runs where, who has ended; each decision is checked against them."""

    def open_books(self, seed: int, now: int) -> None:
        self.now = now
        self.seed = seed
        self.state = State(seed=seed)
        self.number = 0
        self.failed = False
        self.waiting: dict[str, Ticket] = {}
        self.running: dict[str, tuple[Ticket, int, str, int]] = {}
        self.stopping: set[str] = set()
        self.ended: dict[str, str] = {}
        self.promoted: set[str] = set()
        self.facts = fleet()
        self.generation = dict.fromkeys(self.facts, 1)
        self.ready = dict.fromkeys(self.facts, True)
        self.history: list[tuple[events.Event, int, list[Decision]]] = []
        self.copied: tuple[int, State] | None = None
        for name in self.facts:
            self._tell(name)

    def _tell(self, name: str) -> None:
        facts = self.facts[name]
        change = events.ReplicaChanged(
            facts, POOLS[facts.pool], self.ready[name], self.generation[name]
        )
        self._step(change)

    def _step(self, event: events.Event) -> None:
        before = set(self.waiting)
        self.failed = True
        decisions = step(self.state, event, self.now)
        self.history.append((event, self.now, decisions))
        for decision in decisions:
            self._note(decision)
        for decision in decisions:
            if isinstance(decision, Dispatch):
                self._check_order(decision, before)
        self.failed = False

    def _note(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            ticket = self.waiting.pop(decision.request)
            replica = self.state.replicas[decision.replica]
            assert replica.generation == decision.generation
            self.running[decision.request] = (
                ticket,
                decision.attempt,
                decision.replica,
                decision.generation,
            )
            check_limits(self.state, decision)
        elif isinstance(decision, Reject):
            assert decision.request not in self.ended
            del self.waiting[decision.request]
            assert decision.retry_after >= 0
            self.ended[decision.request] = decision.reason
        elif isinstance(decision, Preempt):
            self._check_preempt(decision)
            self.stopping.add(decision.request)
        elif isinstance(decision, Promote):
            assert decision.request not in self.promoted, "promoted twice"
            self.promoted.add(decision.request)
            check_promoted(self.state, decision)
        elif isinstance(decision, WakeAt):
            assert decision.at > 0
        else:
            assert isinstance(decision, Trip | Notice | Scale | Degrade | Throttle | Adjust)

    def _check_preempt(self, decision: Preempt) -> None:
        victim, _, where, _ = self.running[decision.request]
        assert decision.request not in self.stopping
        assert decision.request not in self.promoted
        assert where == decision.replica
        assert victim.resume is not Resume.NEVER
        check_preempted(self.state, decision)

    def _check_order(self, decision: Dispatch, before: set[str]) -> None:
        """Strict mode: who has gone ahead of a more urgent one that could use the slot?"""
        names = before & self.waiting.keys()
        check_order(self.state, decision, [self.state.requests[name] for name in sorted(names)])

    def _replay(self) -> None:
        again = State(seed=self.seed)
        for event, now, decisions in self.history:
            assert step(again, event, now) == decisions
        if self.copied is not None:
            start, state = self.copied
            for event, now, decisions in self.history[start:]:
                assert step(state, event, now) == decisions
