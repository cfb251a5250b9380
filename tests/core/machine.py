"""A random world around ``step`` that checks the scheduler's invariants after each event.

The world keeps its own books from the decisions alone (see ``books``). The state's counts
are held against a recount, its decisions against the books.
"""

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.invariants import check_counts, check_rest, check_work_conserving
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume, Ticket

from .upsets import Upsets
from .world_parts import BUSINESSES, MODELS, MS, SECOND, fleet, policies


class World(Upsets):
    """Rules post events; ``_step`` applies one and checks what came of it."""

    @initialize(seed=st.integers(1, 1000), policy=st.sampled_from(policies()))
    def begin(self, seed: int, policy: Policy) -> None:
        self.open_books(seed, 1_000 * SECOND)
        self._step(events.PolicyChanged(policy))

    # Rules.

    @rule(
        business=st.sampled_from(BUSINESSES),
        model=st.sampled_from(MODELS),
        level=st.integers(0, 9),
        prompt=st.sampled_from([0, 20, 300, 5000]),
        output=st.sampled_from([0, 50, 400]),
        resume=st.sampled_from(list(Resume)),
        budget=st.sampled_from([None, 50 * MS, 3 * SECOND]),
    )
    def arrive(
        self,
        business: str,
        model: str,
        level: int,
        prompt: int,
        output: int,
        resume: Resume,
        budget: int | None,
    ) -> None:
        self.number += 1
        ticket = Ticket(
            f"r{self.number}",
            business,
            model,
            self.state.policy.lane_of(level),
            level,
            self.now,
            prompt,
            output if prompt else 0,
            budget,
            resume,
        )
        self.waiting[ticket.id] = ticket
        self._step(events.Arrived(ticket))

    @rule(
        levels=st.sampled_from([(0, 2), (3, 6), (7, 9), (7, 9)]),
        count=st.integers(3, 9),
        tokens=st.sampled_from([(0, 0), (20, 50), (100, 400)]),
        resume=st.sampled_from([Resume.NEVER, Resume.RESTART, Resume.CONTINUE, Resume.CONTINUE]),
    )
    def flood(
        self, levels: tuple[int, int], count: int, tokens: tuple[int, int], resume: Resume
    ) -> None:
        """Many requests at once, of all businesses and models."""
        for number in range(count):
            level = levels[0] + number % (levels[1] - levels[0] + 1)
            business, model = BUSINESSES[number % 3], MODELS[number // 3 % 2]
            self.arrive(business, model, level, *tokens, resume, None)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), output=st.integers(0, 400), count=st.integers(1, 3))
    def finish(self, data: st.DataObject, output: int, count: int) -> None:
        for _ in range(min(count, len(self.running))):
            name = data.draw(st.sampled_from(sorted(self.running)))
            _, attempt, _, _ = self.running.pop(name)
            self.stopping.discard(name)
            self.ended[name] = "finished"
            self._step(events.Finished(name, attempt, 10, output, failed=output % 4 == 1))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fault=st.sampled_from(list(events.Fault)))
    def fail(self, data: st.DataObject, fault: events.Fault) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        ticket, attempt, _, _ = self.running.pop(name)
        self.stopping.discard(name)
        self.waiting[name] = ticket
        self._step(events.Failed(name, attempt, fault))

    @precondition(lambda self: self.stopping)
    @rule(data=st.data(), produced=st.integers(0, 60))
    def yielded(self, data: st.DataObject, produced: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.stopping)))
        ticket, attempt, _, _ = self.running.pop(name)
        self.stopping.discard(name)
        self.waiting[name] = ticket
        kept = produced if ticket.resume is Resume.CONTINUE else 0
        self._step(events.Yielded(name, attempt, kept))

    @precondition(lambda self: self.waiting or self.running)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted([*self.waiting, *self.running])))
        self.waiting.pop(name, None)
        self.running.pop(name, None)
        self.stopping.discard(name)
        self.ended[name] = "cancelled"
        self._step(events.Cancelled(name))
        self._step(events.Cancelled(name))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), tokens=st.integers(1, 100))
    def progress(self, data: st.DataObject, tokens: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.running)))
        self._step(events.Progress(name, self.running[name][1], tokens))

    @rule(milliseconds=st.sampled_from([1, 20, 300, 2500, 40_000]))
    def wait(self, milliseconds: int) -> None:
        """Time passes, with the ticks that were asked for."""
        until = self.now + milliseconds * MS
        for _ in range(50):
            if not self.state.wake or self.state.wake > until:
                break
            self.now = max(self.now, self.state.wake)
            self._step(events.Tick())
        self.now = until
        self._step(events.Tick())

    @rule(data=st.data())
    def upset(self, data: st.DataObject) -> None:
        """Something else than a request changes."""
        data.draw(st.sampled_from(self.upsets()))(data)

    # What must hold.

    @invariant()
    def counts_are_a_recount(self) -> None:
        if not hasattr(self, "state"):
            return
        state = self.state
        requests = list(state.requests.values())
        assert {r.ticket.id for r in requests if not r.running} == set(self.waiting)
        assert {r.ticket.id for r in requests if r.running} <= set(self.running)
        check_counts(state)

    @invariant()
    def no_usable_slot_is_idle(self) -> None:
        """No request waits while a slot of its placement set is free, and no overdue one
        while a promoted slot is (unless the slot is kept for a larger one ahead)."""
        if hasattr(self, "state"):
            requests = self.state.requests.values()
            check_work_conserving(self.state, [r for r in requests if not r.running])

    def teardown(self) -> None:
        """Everything ends, everything is free, and a second run decides the same."""
        if not hasattr(self, "state") or self.failed:
            return  # what would be found wrong now comes of the step that failed
        self._replay()
        self._step(events.PolicyChanged(Policy()))
        self.facts = fleet()
        for name in self.facts:
            self.ready[name] = True
            self._tell(name)
        for name in BUSINESSES:
            self._step(events.QuotaChanged(name, BusinessFacts(name)))
        for _ in range(1000):
            if not self.running and not self.waiting:
                break
            for name in sorted(self.running):
                _, attempt, _, _ = self.running.pop(name)
                self.ended[name] = "finished"
                self._step(events.Finished(name, attempt))
            self.stopping.clear()
            self.now += SECOND
            self._step(events.Tick())
        assert not self.waiting
        assert not self.running
        check_rest(self.state)
        assert len(self.ended) == self.number
