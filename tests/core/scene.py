"""A stage for ``step``: say what happens, read off who runs, who waits and who was refused."""

from dataclasses import replace

from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Preempt, Promote, Reject, Trip
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

MS = 1_000_000
SECOND = 1000 * MS
START = 1_000 * SECOND

URGENT = PoolFacts("urgent", True, frozenset({0}))
SHARED = PoolFacts("shared", False, frozenset({0, 1, 2}))


def card(
    name: str,
    slots: int = 1,
    *models: str,
    pool: PoolFacts = SHARED,
    kv: int | None = None,
    levels: tuple[int, int] = (0, 9),
) -> tuple[ReplicaFacts, PoolFacts]:
    """A replica of model ``m``, or of the models named."""
    held = {model: model for model in models or ("m",)}
    facts = ReplicaFacts(
        name, "", "vllm", pool.name, slots, kv_tokens=kv, models=held, levels=levels
    )
    return facts, pool


class Scene:
    """One scheduler, its fleet, and a clock that stands still unless told to move."""

    def __init__(
        self,
        *cards: tuple[ReplicaFacts, PoolFacts],
        policy: Policy | None = None,
        seed: int = 1,
        state: State | None = None,
    ) -> None:
        self.state = state or State(policy=policy or Policy(), seed=seed)
        self.now = max(START, self.state.now)
        self.running: dict[str, Dispatch] = {}
        self.started: list[str] = []
        self.refused: dict[str, Reject] = {}
        self.done: list[str] = []
        self.log: list[Decision] = []
        self._cards: dict[str, events.ReplicaChanged] = {}
        self._count = 0
        for facts, pool in cards:
            self.add(facts, pool)

    # What happens.

    def arrive(
        self,
        name: str = "",
        lane: int = 1,
        *,
        level: int | None = None,
        business: str = "shop",
        model: str = "m",
        prompt: int = 0,
        output: int = 0,
        budget: int | None = None,
        resume: Resume = Resume.NEVER,
        session: str = "",
        arrived: int | None = None,
        lighter: tuple[str, ...] = (),
        blocks: tuple[int, ...] = (),
    ) -> list[Decision]:
        """A request comes; without a name it gets a number."""
        self._count += 1
        at = self.now if arrived is None else arrived
        usual = (0, 4, 8)[lane] if level is None else level
        ticket = Ticket(
            name or f"r{self._count}",
            business,
            model,
            lane,
            usual,
            at,
            prompt,
            output,
            budget,
            resume,
            session,
            lighter=lighter,
            blocks=blocks,
        )
        return self.step(events.Arrived(ticket))

    def finish(self, *names: str, output: int = 0) -> list[Decision]:
        """Attempts end well."""
        out: list[Decision] = []
        for name in names:
            attempt = self.running.pop(name).attempt
            self.done.append(name)
            out += self.step(events.Finished(name, attempt, 0, output))
        return out

    def finish_badly(self, name: str) -> list[Decision]:
        """An attempt breaks off with nothing to be saved."""
        attempt = self.running.pop(name).attempt
        return self.step(events.Finished(name, attempt, failed=True))

    def fail(self, name: str, fault: events.Fault = events.Fault.ERROR) -> list[Decision]:
        """An attempt ends badly."""
        return self.step(events.Failed(name, self.running.pop(name).attempt, fault))

    def stop(self, name: str, produced: int = 0) -> list[Decision]:
        """A preempted attempt has stopped."""
        return self.step(events.Yielded(name, self.running.pop(name).attempt, produced))

    def see(self, name: str, tokens: int = 1) -> list[Decision]:
        """The caller has seen output."""
        return self.step(events.Progress(name, self.running[name].attempt, tokens))

    def cancel(self, name: str) -> list[Decision]:
        """The caller goes away."""
        self.running.pop(name, None)
        return self.step(events.Cancelled(name))

    def add(self, facts: ReplicaFacts, pool: PoolFacts = SHARED) -> list[Decision]:
        """A replica comes, or is changed."""
        known = self._cards.get(facts.name)
        generation = known.generation if known is not None else 1
        return self._tell(events.ReplicaChanged(facts, pool, True, generation))

    def probe(self, name: str, *, ready: bool) -> list[Decision]:
        """A replica is found well or not."""
        return self._tell(replace(self._cards[name], ready=ready))

    def restart(self, name: str) -> list[Decision]:
        """A new process under the old name."""
        known = self._cards[name]
        return self._tell(replace(known, generation=known.generation + 1, ready=True))

    def remove(self, name: str) -> list[Decision]:
        """A replica leaves the fleet."""
        del self._cards[name]
        return self.step(events.ReplicaRemoved(name))

    def _tell(self, change: events.ReplicaChanged) -> list[Decision]:
        self._cards[change.facts.name] = change
        return self.step(change)

    def measure(
        self, name: str, gpu: float | None, memory: float | None = None, queue: int | None = None
    ) -> list[Decision]:
        """A replica's own figures come in."""
        return self.step(events.Measured(name, gpu, memory, queue))

    def limit(
        self,
        business: str = "shop",
        *,
        running: int | None = None,
        queued: int | None = None,
        weight: float = 1.0,
        suspended: bool = False,
    ) -> list[Decision]:
        """A business's limits are as told."""
        facts = BusinessFacts(
            business, running=running, queued=queued, weight=weight, suspended=suspended
        )
        return self.step(events.QuotaChanged(business, facts))

    def forget(self, business: str) -> list[Decision]:
        """A business is deleted."""
        return self.step(events.QuotaChanged(business, None))

    def rules(self, policy: Policy) -> list[Decision]:
        """Another policy is activated."""
        return self.step(events.PolicyChanged(policy))

    def wait(self, ns: int) -> list[Decision]:
        """Time passes, with the ticks that the scheduler asked for and no other."""
        until = self.now + ns
        out: list[Decision] = []
        while self.now < self.state.wake <= until:
            self.now = self.state.wake
            out += self.step(events.Tick())
        self.now = until
        return out

    def tick(self) -> list[Decision]:
        """A tick that nobody asked for."""
        return self.step(events.Tick())

    def step(self, event: events.Event) -> list[Decision]:
        """Any event; decisions are noted down."""
        out = step(self.state, event, self.now)
        self.log += out
        for decision in out:
            if isinstance(decision, Dispatch):
                assert decision.request not in self.running
                self.running[decision.request] = decision
                self.started.append(decision.request)
            elif isinstance(decision, Reject):
                self.refused[decision.request] = decision
        return out

    # What came of it.

    def on(self, replica: str) -> list[str]:
        """Requests that run on a replica."""
        return [name for name, found in self.running.items() if found.replica == replica]

    def where(self, name: str) -> str:
        """The replica that a request runs on."""
        return self.running[name].replica

    def stopped(self) -> list[str]:
        """Requests told to stop so far."""
        return [decision.request for decision in self.log if isinstance(decision, Preempt)]

    def promoted(self) -> list[str]:
        """Requests promoted so far."""
        return [decision.request for decision in self.log if isinstance(decision, Promote)]

    def trips(self) -> list[str]:
        """Replicas taken out so far."""
        return [decision.replica for decision in self.log if isinstance(decision, Trip)]

    def waiting(self) -> list[str]:
        """Requests that wait, in order of arrival."""
        found = [r for r in self.state.requests.values() if not r.running]
        return [r.ticket.id for r in sorted(found, key=lambda r: (r.ticket.arrived, r.sequence))]

    def drain(self, ns: int = SECOND) -> list[str]:
        """Let what runs end, in the order of its start, ``ns`` apart, until nothing runs;
        returns the order in which requests started meanwhile."""
        before = len(self.started)
        while self.running:
            self.wait(ns)
            self.finish(next(iter(self.running)))
        return self.started[before:]
