"""A scheduling core to be timed step by step: told events, and asked what each of them cost."""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from metering.core.facts import BusinessFacts
from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Preempt, Reject
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import PREFIX_BLOCK, Resume, Ticket

from .machine import BenchError

START = 1_760_000_000_000_000_000
EVENT_NS = 25_000
MS = 1_000_000
SECOND = 1000 * MS
SHARED = PoolFacts("gpu", False, frozenset({0, 1, 2}))
LEVELS = ((0, 2), (3, 6), (7, 9))
# A system prompt that all calls of a business begin with.
SYSTEM_BLOCKS = 8
TOKENS = 10**10


def roomy(policy: Policy, room: int) -> Policy:
    """The policy with queues for so many requests, and nothing turned away because P0 waits:
    queues that are to stay as they are must not be changed by the rules."""
    queues = policy.queues
    return replace(
        policy,
        backpressure=replace(policy.backpressure, action=()),
        queues=replace(
            queues,
            P0=replace(queues.P0, max_queue=room, max_queue_tokens=TOKENS),
            P1=replace(queues.P1, max_queue=room, max_queue_tokens=TOKENS),
            P2=replace(queues.P2, max_queue=room, max_queue_tokens=TOKENS),
        ),
    )


@dataclass(frozen=True, slots=True)
class Step:
    """What an event brought, and the CPU time (ns) that it took."""

    decisions: list[Decision]
    took: int

    def stopped(self) -> Preempt | None:
        """The first request that was told to stop."""
        return next((each for each in self.decisions if isinstance(each, Preempt)), None)


class Stage:
    """A core with a fleet of equal cards. Time moves on by 25 us an event, or when told to."""

    def __init__(self, policy: Policy | None = None, *, room: int = 100_000, seed: int = 7) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.running: dict[str, Dispatch] = {}
        self.tickets: dict[str, Ticket] = {}
        self._state = State()
        self._count = 0
        self.rules(roomy(policy or Policy(), room))

    def rules(self, policy: Policy) -> None:
        """Another policy."""
        self.policy = policy
        self.tell(events.PolicyChanged(policy))

    def fleet(self, cards: int, slots: int, models: int = 1, kv_tokens: int | None = None) -> None:
        """So many cards that take every lane, each with one of the models."""
        for number in range(cards):
            model = f"model-{number % models}"
            facts = ReplicaFacts(
                f"card-{number}",
                "http://127.0.0.1:1",
                "vllm",
                SHARED.name,
                slots,
                kv_tokens=kv_tokens,
                models={model: model},
            )
            self.tell(events.ReplicaChanged(facts, SHARED, ready=True, generation=1))

    def businesses(self, count: int) -> None:
        """So many businesses without limits."""
        for number in range(count):
            name = f"business-{number}"
            self.tell(events.QuotaChanged(name, BusinessFacts(name, ceiling=0)))

    def ticket(
        self,
        lane: int,
        *,
        business: int = 0,
        model: int = 0,
        prompt: int = 300,
        output: int = 300,
        budget: int | None = None,
        resume: Resume = Resume.NEVER,
    ) -> Ticket:
        """A request that comes now. Its prompt begins as all of its business do."""
        self._count += 1
        shared = [hash((business, place)) for place in range(SYSTEM_BLOCKS)]
        own = [hash((self._count, place)) for place in range(prompt // PREFIX_BLOCK)]
        return Ticket(
            id=f"01987a3c-5f00-7000-8000-{self._count:012x}",
            business=f"business-{business}",
            model=f"model-{model}",
            lane=lane,
            level=self.random.randint(*LEVELS[lane]),
            arrived=self.now,
            prompt=prompt,
            output=output,
            budget=budget,
            resume=resume,
            blocks=tuple((shared + own)[: prompt // PREFIX_BLOCK]),
        )

    def arrive(self, ticket: Ticket) -> Step:
        """The request comes. Raises BenchError where it is refused."""
        self.tickets[ticket.id] = ticket
        found = self.tell(events.Arrived(ticket))
        refused = next((each for each in found.decisions if isinstance(each, Reject)), None)
        if refused is not None:
            raise BenchError(f"core: a request was refused: {refused.reason}")
        return found

    def finish(self, name: str, output: int = 0, first: int = 0) -> Step:
        """The request that runs ends well, after ``output`` tokens; its caller had the first
        ``first`` ns after it was sent."""
        attempt = self.running.pop(name).attempt
        ticket = self.tickets.pop(name)
        at = ticket.arrived + first if first else 0
        return self.tell(events.Finished(name, attempt, ticket.prompt, output, first=at, cached=0))

    def finish_all(self, names: Iterable[str], output: Callable[[], int], first: int) -> None:
        """All of these end now."""
        for name in list(names):
            self.finish(name, output(), first)

    def stop(self, name: str, produced: int) -> Step:
        """The request has stopped as it was told, with so many tokens."""
        return self.tell(events.Yielded(name, self.running.pop(name).attempt, produced))

    def leave(self, name: str) -> None:
        """The request's caller has gone."""
        self.tickets.pop(name)
        self.running.pop(name, None)
        self.tell(events.Cancelled(name))

    def wait(self, ns: int) -> None:
        """Time passes, and what is due by then is done, so that no later step has to."""
        self.now += ns
        self.tell(events.Tick())

    def tick(self) -> Step:
        """Look at the clock."""
        return self.tell(events.Tick())

    def tell(self, event: events.Event) -> Step:
        """Any event."""
        self.now += EVENT_NS
        began = time.process_time_ns()
        decisions = step(self._state, event, self.now)
        took = time.process_time_ns() - began
        # Whatever starts has its first token at once: a card that prefills would take no more.
        for decision in decisions:
            if isinstance(decision, Dispatch):
                self.running[decision.request] = decision
                self.now += EVENT_NS
                seen = events.Progress(decision.request, decision.attempt, 1)
                decisions += step(self._state, seen, self.now)
        return Step(decisions, took)

    @property
    def waiting(self) -> list[int]:
        """Requests that wait, by lane."""
        lanes = [ticket.lane for name, ticket in self.tickets.items() if name not in self.running]
        return [lanes.count(lane) for lane in range(3)]

    def any_running(self) -> str:
        """One of those that run."""
        return self.random.choice(list(self.running))
