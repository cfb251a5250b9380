"""Breakers of replicas and of businesses on a gateway at work, in time that moves when told."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from scheduler.core.decisions import Kind
from scheduler.core.fleet import ModelFacts
from scheduler.testing import ManualClock

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Seen, Stub, Wire, polite, stub


@pytest.fixture
def clock() -> ManualClock:
    """Stands still."""
    return ManualClock()


@pytest.fixture
async def running(engine: Stub, clock: ManualClock) -> AsyncIterator[Gate]:
    """A gateway before the stub; failed attempts are not made again."""
    memory = furnished(replica(engine.url))
    memory.rules = replace(memory.rules, failover=replace(memory.rules.failover, retry_budget=0.0))
    async with gate(memory, clock=clock) as gateway:
        yield gateway


async def broken(seen: Seen, wire: Wire) -> None:
    """An engine that has lost its mind, or has it for most: not for who says "fail"."""
    await wire.json({"error": {"message": "out of memory"}}, 500)


async def picky(seen: Seen, wire: Wire) -> None:
    """Fails for some prompts alone."""
    await (broken if seen.prompt == "fail" else polite)(seen, wire)


def noticed(gateway: Gate) -> list[tuple[str, str]]:
    """What happened to breakers, by the decision log."""
    kinds = {Kind.BROKEN, Kind.MENDED, Kind.SUSPENDED, Kind.RESTORED}
    return [
        (row.reason, str(row.detail["name"]))
        for row in gateway.decisions.rows
        if row.kind == "notice" and row.detail is not None and row.reason in kinds
    ]


async def test_b07_with_all_breakers_open_a_call_that_waits_as_told_succeeds(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    """30 s are left, and that is said; a second before the end a second is; then one call is
    made, and served."""
    engine.answer = broken
    while not noticed(running):
        assert (await running.chat()).status_code == 502
    sent = len(engine.seen)
    assert sent == running.memory.rules.failover.fail_threshold
    engine.answer = polite
    for passed, left in ((0, 30), (18, 12), (11, 1)):
        clock.advance(passed)
        refused = await running.chat()
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == str(left)
        assert refused.json()["error"]["code"] == "no_capacity"
        assert "'chat'" in refused.json()["error"]["message"]
    assert len(engine.seen) == sent
    clock.advance(1)
    assert (await running.chat()).status_code == 200
    assert noticed(running) == [("broken", "r1"), ("mended", "r1")]


async def test_a_business_that_fails_is_suspended_trickled_and_restored(
    running: Gate, engine: Stub, clock: ManualClock
) -> None:
    """Its neighbour is served all the while, and no replica's breaker opens for it."""
    engine.answer = picky
    rules = running.memory.rules.tenant_breaker

    async def both(prompt: str) -> int:
        """A call of each, the neighbour's served; the status of the other's."""
        assert (await running.chat("fine", key=LOW_KEY)).status_code == 200
        clock.advance(0.1)
        return (await running.chat(prompt, key=KEY)).status_code

    for _ in range(rules.min_requests):
        assert await both("fail") == 502
    assert noticed(running) == [("suspended", "owner")]
    refused = await running.chat("fine", key=KEY)
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "tenant_suspended"
    assert refused.headers["retry-after"] == str(round(rules.open_s))
    clock.advance(rules.open_s)
    # A trickle, which fails still.
    statuses = [await both("fail") for _ in range(50)]
    assert set(statuses) == {502, 429}
    assert statuses.count(502) == round(50 * rules.trickle)
    assert noticed(running) == [("suspended", "owner")] * 2
    clock.advance(rules.open_s)
    statuses = [await both("fine") for _ in range(50)]
    assert noticed(running) == [("suspended", "owner")] * 2 + [("restored", "owner")]
    assert statuses[-1] == 200
    assert {await both("fine") for _ in range(20)} == {200}


async def test_an_adapter_that_one_replica_has_lost_costs_no_call_and_no_other_model(
    engine: Stub, clock: ManualClock
) -> None:
    """That replica answers 404 for it and says that it is well. Its base model stays in use, the
    live figures name the adapter, and it is back when it has been loaded again."""
    lost = True

    async def without(seen: Seen, wire: Wire) -> None:
        if seen.json["model"] == "adapter-a" and lost:
            detail = "The model `adapter-a` does not exist."
            await wire.json({"object": "error", "message": detail, "code": 404}, 404)
        else:
            await polite(seen, wire)

    def asked(server: Stub, model: str) -> int:
        return sum(seen.json["model"] == model for seen in server.seen)

    engine.answer = without
    async with stub() as other:
        models = {"chat": "base", "tuned": "adapter-a"}
        memory = furnished(
            *(
                replace(replica(server.url, name=name), models=models)
                for name, server in (("r1", engine), ("r2", other))
            )
        )
        memory.model(ModelFacts("tuned"))
        async with gate(memory, clock=clock) as running:
            for number in range(30):
                key = (KEY, LOW_KEY, URGENT_KEY)[number % 3]
                assert (await running.chat("hello", key=key, model="tuned")).status_code == 200
                assert (await running.chat("hello", key=key)).status_code == 200
                clock.advance(0.1)
            rules = running.memory.rules.failover
            assert asked(engine, "adapter-a") == rules.fail_threshold
            assert asked(engine, "base") > 0 < asked(other, "base")
            assert noticed(running) == [("broken", "r1")]
            (one,) = [r for r in running.runtime._publisher.frame().replicas if r.name == "r1"]
            assert (one.breaker, one.broken) == ("partly", ["tuned"])
            lost = False
            clock.advance(rules.open_s)
            for _ in range(20):
                assert (await running.chat("hello", model="tuned")).status_code == 200
            assert noticed(running) == [("broken", "r1"), ("mended", "r1")]


async def test_one_caller_whose_prompts_are_too_long_closes_no_replica_to_others(
    running: Gate, engine: Stub
) -> None:
    """Twenty calls over the context length, each between two that the server fails."""

    async def strict(seen: Seen, wire: Wire) -> None:
        if seen.prompt == "long":
            await wire.json({"error": {"message": "maximum context length"}}, 400)
        else:
            await broken(seen, wire)

    engine.answer = strict
    for _ in range(20):
        assert (await running.chat("long", key=LOW_KEY)).status_code in {400, 503}
        await running.chat("hello", key=KEY)
    # A call that the engine found fault with has not shown the engine to be well.
    assert set(noticed(running)) == {("broken", "r1")}
    assert (await running.chat("hello", key=KEY)).status_code == 503
    # Once more it was tried, for the one business on whose word it was not closed.
    tries = sum(seen.prompt == "hello" for seen in engine.seen)
    assert tries == running.memory.rules.failover.fail_threshold + 1
