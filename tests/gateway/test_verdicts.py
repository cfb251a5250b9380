"""What becomes of verdicts: told as a probing process tells them, at times of the test's own."""

import asyncio
import math
from collections.abc import Callable, Sequence

from scheduler.core.events import ReplicaChanged
from scheduler.core.fleet import FleetSnapshot, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.health import Health
from scheduler.probing.messages import Found, Verdict
from scheduler.probing.prober import Prober
from scheduler.testing import Memory

from .harness import EVERYWHERE, furnished, replica

UNTOUCHED = -math.inf


class Judged:
    """Health of a fleet, and what it told. No process runs: the test is the prober."""

    def __init__(self, *names: str) -> None:
        self.told: list[list[ReplicaChanged]] = []
        self.seen: list[tuple[str, str]] = []
        self.heard = UNTOUCHED
        self.prober = Prober(EVERYWHERE)
        self.health = Health(
            self._tell,
            lambda name, state: self.seen.append((name, state)),
            self.prober,
            heard=lambda url: self.heard,
            warm=self._warm,
        )
        self.memory: Memory = furnished(*(replica(f"http://{name}", name=name) for name in names))
        self.health.policy = self.memory.rules
        self.health.watch(self.memory.fleet())

    def _tell(self, changes: Sequence[ReplicaChanged]) -> None:
        self.told.append(list(changes))

    async def _warm(self, facts: ReplicaFacts) -> bool:
        return True

    def find(self, name: str, verdict: Verdict, asked: float | None = None) -> None:
        """A probe's verdict, on a question of now or of another time."""
        sent = asyncio.get_running_loop().time() if asked is None else asked
        self.prober.on_found(Found(self.health.watches[name].number, verdict, sent, "why"))

    def state(self, name: str = "a") -> str:
        return self.health.watches[name].state


async def test_a_turn_s_changes_are_told_together() -> None:
    """Each time that the fleet changes it is laid out anew."""
    judged = Judged("a", "b", "c")
    for name in "abc":
        judged.find(name, Verdict.WELL)
    assert not judged.told
    await asyncio.sleep(0)
    (together,) = judged.told
    assert [(c.facts.name, c.ready, c.generation) for c in together] == [
        ("a", True, 1),
        ("b", True, 1),
        ("c", True, 1),
    ]
    judged.find("b", Verdict.GONE)
    judged.find("b", Verdict.WELL)
    await asyncio.sleep(0)
    # As it is by then.
    assert [(c.facts.name, c.ready, c.generation) for c in judged.told[-1]] == [("b", True, 2)]
    assert judged.seen[-2:] == [("b", "down"), ("b", "ready")]


async def test_of_a_replica_that_leaves_in_the_same_turn_nothing_is_told() -> None:
    judged = Judged("a", "b")
    judged.find("a", Verdict.WELL)
    judged.find("b", Verdict.WELL)
    judged.health.watch(FleetSnapshot())
    await asyncio.sleep(0)
    assert judged.told == [[]]
    assert not judged.prober._standing.probe


async def test_one_that_says_nothing_twice_is_out() -> None:
    judged = Judged("a")
    judged.find("a", Verdict.WELL)
    judged.find("a", Verdict.SILENT)
    assert judged.state() == "ready"
    judged.find("a", Verdict.WELL)
    judged.find("a", Verdict.SILENT)
    assert judged.state() == "ready"
    judged.find("a", Verdict.SILENT)
    assert judged.state() == "down"


async def test_one_that_was_heard_since_it_was_asked_is_not() -> None:
    """A byte of an answer counts as a probe's would: from its time on two have to fail."""
    judged = Judged("a")
    judged.find("a", Verdict.WELL, 0.0)
    judged.heard = 10.0
    for asked in (1.0, 2.5, 4.0, 5.5, 10.0):
        judged.find("a", Verdict.SILENT, asked)
        assert judged.state() == "ready"
    judged.find("a", Verdict.SILENT, 11.5)
    judged.heard = 12.0
    judged.find("a", Verdict.SILENT, 12.0)
    judged.find("a", Verdict.SILENT, 13.5)
    assert judged.state() == "ready"
    judged.find("a", Verdict.SILENT, 15.0)
    assert judged.state() == "down"


async def test_what_says_that_it_is_not_ready_is_out_though_it_streams() -> None:
    """Or has let go of its port: it ends what it has, and is to get no more."""
    for verdict in (Verdict.UNWELL, Verdict.GONE):
        judged = Judged("a")
        judged.find("a", Verdict.WELL)
        judged.heard = math.inf
        judged.find("a", verdict)
        assert judged.state() == "down"


async def test_an_answer_to_a_question_from_before_it_was_suspected_proves_nothing() -> None:
    judged = Judged("a")
    before = asyncio.get_running_loop().time()
    judged.find("a", Verdict.WELL)
    judged.health.suspect("a")
    assert judged.state() == "down"
    assert judged.health.watches["a"].tripped
    judged.find("a", Verdict.WELL, before)
    assert judged.state() == "down"
    judged.find("a", Verdict.WELL)
    assert judged.state() == "ready"
    assert not judged.health.watches["a"].tripped


async def test_one_that_is_held_out_is_back_when_its_time_is_up() -> None:
    judged = Judged("a")
    policy: Policy = judged.health.policy
    turns: list[Callable[[], None]] = [
        lambda: judged.find("a", Verdict.WELL),
        lambda: judged.find("a", Verdict.UNWELL),
    ]
    for turn in turns * policy.failover.fail_threshold:
        turn()
    judged.find("a", Verdict.WELL)
    assert judged.state() == "down"
    watch = judged.health.watches["a"]
    assert watch.well_since is not None
    watch.well_since -= policy.failover.open_s
    judged.find("a", Verdict.WELL)
    assert judged.state() == "ready"
