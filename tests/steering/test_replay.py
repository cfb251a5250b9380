"""What a replayed request tells the scheduler: what its record tells, and nothing else."""

from dataclasses import replace

import pytest

from metering.core.facts import BusinessFacts
from scheduler.core.fleet import FleetSnapshot, PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.whatif.recording import Asked, Recording, fit
from scheduler.whatif.replay import Replay

MS = 1_000_000
SECOND = 1000 * MS
FLEET = FleetSnapshot(
    pools={"all": PoolFacts("all", False, frozenset({0, 1, 2}))},
    replicas={"a": ReplicaFacts("a", "", "vllm", "all", 4, models={"m": "m"})},
)
# Two seconds of an answer, of which the first token is there after a tenth of one.
STREAMED = Asked(
    business="shop",
    model="m",
    arrived=SECOND,
    lane=1,
    level=4,
    base=4,
    claim="",
    generative=True,
    continues=True,
    streamed=True,
    dispatched=SECOND,
    finished=3 * SECOND,
    seen=100 * MS,
    service=2 * SECOND,
    replica="a",
    prompt=1000,
    output=96,
    left=False,
    timed_out=False,
    refused="",
)
PLAIN = replace(STREAMED, continues=False, streamed=False, seen=2 * SECOND)


def replayed(*asked: Asked) -> Replay:
    requests = tuple(
        replace(each, arrived=(1 + 3 * number) * SECOND) for number, each in enumerate(asked)
    )
    run = Replay(
        Recording(0, 100 * SECOND, requests),
        fit(requests),
        fleet=FLEET,
        businesses={"shop": BusinessFacts("shop")},
        policy=Policy(),
        level=lambda each: each.level,
    )
    told = run.run()
    assert all(each.ended and not each.refused for each in told)
    return run


def test_a_streamed_answer_tells_how_long_its_prompt_took() -> None:
    estimates = replayed(*[STREAMED] * 10)._state.estimates
    assert estimates.prefill("m", "a", 1000) == pytest.approx(100 * MS, rel=0.05)


def test_a_plain_one_does_not() -> None:
    """Its first byte comes when all of it is there: that is no prompt of two seconds."""
    estimates = replayed(*[PLAIN] * 10)._state.estimates
    assert not estimates.prefill_known("m")
    mixed = replayed(*[STREAMED, PLAIN] * 10)._state.estimates
    assert mixed.prefill("m", "a", 1000) == pytest.approx(100 * MS, rel=0.05)
