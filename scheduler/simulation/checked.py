"""The production core with its promises checked after every step (see ``core.invariants``).

Books are kept from events and decisions alone: who waits, who runs where, who has ended. The
state's counts are held against them at each step; every so often, and wherever a count differs that
the books cannot tell, all of it is counted anew.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from scheduler.core.decisions import Decision, Dispatch, Preempt, Promote, Reject
from scheduler.core.events import Arrived, Event, Failed, Finished, Yielded, request_of
from scheduler.core.invariants import (
    BrokenInvariantError,
    check_counts,
    check_limits,
    check_order,
    check_preempted,
    check_promoted,
    check_replica,
    check_rest,
    check_work_conserving,
    hold,
)

from .fairlane import Fairlane
from .scheduling import Cluster

# All is counted anew after so many steps.
RECOUNT = 500


class Checked(Fairlane):
    """Raises BrokenInvariantError at the step that breaks one, with its number and time."""

    def __init__(self, cluster: Cluster) -> None:
        self.steps = 0
        self._open: dict[str, str] = {}
        self._runs: dict[str, tuple[str, int]] = {}
        self._ended: set[str] = set()
        self._urgent: dict[str, None] = {}
        self._queued: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._held: defaultdict[tuple[str, int], int] = defaultdict(int)
        super().__init__(cluster)

    def closed(self) -> None:
        """See Scheduler."""
        super().closed()
        check_counts(self.state)
        if not self._open:
            check_rest(self.state)

    def stepped(self, event: Event, decisions: Sequence[Decision]) -> None:
        """See Fairlane."""
        self.steps += 1
        try:
            self._note_event(event)
            for decision in decisions:
                self._note(decision)
            self._compare()
            self._check(decisions, request_of(event))
        except (BrokenInvariantError, KeyError) as error:
            at = self.cluster.now / 1e9
            message = f"step {self.steps} at {at:.6f} s, {type(event).__name__}: {error!r}"
            raise BrokenInvariantError(message) from error

    def _note_event(self, event: Event) -> None:
        if isinstance(event, Arrived):
            name = event.ticket.id
            hold(name not in self._open and name not in self._ended, name, "has come twice")
            self._open[name] = event.ticket.business
            self._queued[event.ticket.business] += 1
            if event.ticket.lane == 0:
                self._urgent[name] = None
        elif isinstance(event, Finished):
            self._leave(event.request)
            self._end(event.request)
        elif isinstance(event, Failed | Yielded):
            self._leave(event.request)
            self._queued[self._open[event.request]] += 1
            if self._lane(event.request) == 0:
                self._urgent[event.request] = None

    def _note(self, decision: Decision) -> None:
        if isinstance(decision, Dispatch):
            name = decision.request
            hold(name in self._open and name not in self._runs, name, "does not wait")
            where = decision.replica, decision.generation
            self._runs[name] = where
            self._held[where] += 1
            self._queued[self._open[name]] -= 1
            self._running[self._open[name]] += 1
            self._urgent.pop(name, None)
        elif isinstance(decision, Reject):
            name = decision.request
            hold(name in self._open and name not in self._runs, name, "is refused and runs")
            hold(name not in self.state.requests, name, "is refused and kept")
            self._queued[self._open[name]] -= 1
            self._end(name)
        elif isinstance(decision, Preempt):
            hold(decision.request in self._runs, decision.request, "is stopped and does not run")

    def _leave(self, name: str) -> None:
        self._held[self._runs.pop(name)] -= 1
        self._running[self._open[name]] -= 1

    def _end(self, name: str) -> None:
        self._urgent.pop(name, None)
        del self._open[name]
        self._ended.add(name)

    def _lane(self, name: str) -> int:
        request = self.state.requests.get(name)
        return 2 if request is None else request.lane

    def _compare(self) -> None:
        """The state's counts with the books."""
        state = self.state
        waiting = len(self._open) - len(self._runs)
        hold(len(state.requests) == len(self._open), "open:", len(state.requests))
        hold(sum(state.lane_queued) == waiting, "queued:", state.lane_queued, waiting)
        hold(sum(state.lane_running) == len(self._runs), "running:", state.lane_running)
        hold(min(*state.lane_queued, *state.lane_running) >= 0, "a lane has less than nothing")
        hold(min(state.stoppable, state.yielding, state.free) >= 0, "a count is below nothing")
        for name, tenant in state.tenants.items():
            hold(tenant.queued == self._queued[name] >= 0, "queued of", name, tenant.queued)
            hold(tenant.running == self._running[name] >= 0, "running of", name, tenant.running)
        for name, replica in state.replicas.items():
            here = self._held[name, replica.generation]
            hold(replica.running == here, name, "runs", replica.running, "not", here)
            hold(0 <= here <= replica.facts.slots, name, "has", here, "in its slots")
            check_replica(replica)

    def _check(self, decisions: Sequence[Decision], newcomer: str) -> None:
        state = self.state
        for decision in decisions:
            if isinstance(decision, Dispatch):
                check_limits(state, decision)
                waited = (state.requests[name] for name in self._urgent if name != newcomer)
                check_order(state, decision, waited)
            elif isinstance(decision, Promote):
                check_promoted(state, decision)
            elif isinstance(decision, Preempt):
                check_preempted(state, decision)
        if self._urgent and state.policy.mode == "strict":
            check_work_conserving(state, (state.requests[name] for name in self._urgent))
        if self.steps % RECOUNT == 0:
            check_counts(state)
            waiting = [request for request in state.requests.values() if not request.running]
            check_work_conserving(state, waiting)
