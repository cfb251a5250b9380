"""Replicas that come and go, are never ready, or are busy for long: real processes.

``FAIRLANE_LONG_TESTS=1`` keeps them so for as long as they would be in life.
"""

import asyncio
import os
import socket
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace

import httpx
import pytest

from scheduler.core.policy import Policy
from tests.support.engines import EngineProcess, emulator_process

from .answers import states
from .harness import LOW_KEY, Gate, free_port, furnished, gate, replica
from .test_resume import one_answer

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
BUSY_S = 60.0 if LONG else 3.0
FLAP_S, FLAPS = (5.0, 8) if LONG else (0.0, 3)
QUICK = ("--slots", "8", "--step-base-ms", "2", "--step-per-running-ms", "0.1")
USAGE = {"include_usage": True}

pytestmark = pytest.mark.timeout(400 if LONG else 90)


def fault(server: EngineProcess, **fields: object) -> None:
    """Let a server misbehave; without fields it behaves again."""
    url = f"{server.url}/emulator/faults"
    httpx.post(url, json=fields, trust_env=False).raise_for_status()


async def several(gateway: Gate, count: int = 12) -> Counter[str]:
    """Calls one after another, all of which must be served; where they were."""
    found: Counter[str] = Counter()
    for _ in range(count):
        answer = await gateway.chat("hi", max_tokens=2)
        assert answer.status_code == 200, answer.text
        found[answer.headers["x-replica"]] += 1
    return found


async def crowd(gateway: Gate) -> Counter[str]:
    """As many calls at once as two replicas have slots; where they were served."""
    calls = [gateway.chat("hi", max_tokens=30, ignore_eos=True) for _ in range(8)]
    answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} == {200}
    return Counter(answer.headers["x-replica"] for answer in answers)


async def test_d01_a_replica_that_listens_but_is_never_ready_gets_nothing() -> None:
    """One says that it is loading, another takes connections and says nothing at all. The
    first gets calls as soon as it is ready, and not before."""
    with emulator_process(*QUICK, model="chat") as good, socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        with emulator_process(*QUICK, model="chat") as loading:
            fault(loading, never_ready=True)
            facts = [
                replica(good.url, name="good"),
                replica(loading.url, name="loading"),
                replica(f"http://127.0.0.1:{deaf.getsockname()[1]}", name="deaf"),
            ]
            async with gate(furnished(*facts)) as gateway:
                await gateway.until(lambda: "unknown" not in states(gateway).values())
                assert states(gateway) == {"good": "ready", "loading": "down", "deaf": "down"}
                assert await several(gateway) == {"good": 12}
                fault(loading)
                await gateway.until(lambda: states(gateway)["loading"] == "ready")
                assert (await crowd(gateway))["loading"] > 0
                assert states(gateway)["deaf"] == "down"


async def test_a_replica_that_flaps_loses_nobodys_answer_and_is_held_out() -> None:
    """Callers notice nothing, and after some turns it has to stay well for a while."""
    policy = Policy()
    policy = replace(policy, failover=replace(policy.failover, open_s=4.0))
    with (
        emulator_process(*QUICK, model="chat") as good,
        emulator_process(*QUICK, model="chat") as bad,
    ):
        facts = [replica(good.url, name="good"), replica(bad.url, name="bad")]
        async with gate(furnished(*facts, policy=policy)) as gateway:
            watch = gateway.runtime.health.watches["bad"]
            stop = asyncio.Event()
            answers = asyncio.create_task(steadily(gateway, stop))
            for turn in range(FLAPS):
                await asyncio.sleep(FLAP_S)
                fault(bad, never_ready=True)
                await gateway.until(lambda: watch.well_since is None)
                await asyncio.sleep(FLAP_S)
                fault(bad)
                await gateway.until(lambda: watch.well_since is not None)
                assert watch.ready is (turn + 1 < policy.failover.fail_threshold)
            began = time.monotonic()
            await gateway.until(lambda: watch.ready)
            assert time.monotonic() - began > policy.failover.open_s - 2
            stop.set()
            assert await answers > 0
            assert (await crowd(gateway))["bad"] > 0


async def steadily(gateway: Gate, stop: asyncio.Event) -> int:
    """Calls, one after another, until told to stop; how many. Each is answered."""
    made = 0
    while not stop.is_set():
        assert (await gateway.chat("hi", max_tokens=2)).status_code == 200
        made += 1
    return made


async def test_a_replica_that_is_busy_for_long_is_asked_seldom_and_never_blamed() -> None:
    """503 to every call, all the while saying that it is well: no breaker's matter. The
    attempts that it costs grow rarer, and it is used again when it has room."""
    with (
        emulator_process(*QUICK, model="chat") as good,
        emulator_process(*QUICK, model="chat") as busy,
    ):
        facts = [replica(good.url, name="good"), replica(busy.url, name="busy")]
        async with gate(furnished(*facts)) as gateway:
            fault(busy, refuse=503, retry_after=1)
            end = time.monotonic() + BUSY_S
            while time.monotonic() < end:
                assert (await gateway.chat("hi", max_tokens=2)).headers["x-replica"] == "good"
            assert states(gateway) == {"good": "ready", "busy": "ready"}
            rows = gateway.usage.rows
            assert {row.status for row in rows} == {"ok"}
            # Held off for 0.25, 0.5, 1, 2, 4 and then 8 s each time.
            extra = sum(row.attempts - 1 for row in rows)
            assert 1 <= extra <= 6 + BUSY_S / 8
            fault(busy)
            held = gateway.runtime.scheduler.state.replicas["busy"]
            clock = gateway.runtime.gateway.clock
            await gateway.until(lambda: held.busy_until < clock.now())
            assert (await crowd(gateway))["busy"] > 0


async def test_callers_of_the_only_replica_wait_while_it_is_busy() -> None:
    """Nobody else can answer: they are served when it can."""
    with emulator_process(*QUICK, model="chat") as busy:
        async with gate(furnished(replica(busy.url, name="busy"))) as gateway:
            gateway.client.timeout = httpx.Timeout(BUSY_S + 30)
            fault(busy, refuse=503)
            calls = [asyncio.create_task(gateway.chat("hi", max_tokens=2)) for _ in range(5)]
            await asyncio.sleep(BUSY_S / 2)
            assert not any(call.done() for call in calls)
            fault(busy)
            answers = await asyncio.gather(*calls)
            assert {answer.status_code for answer in answers} == {200}
            assert {row.status for row in await gateway.rows(5)} == {"ok"}


async def test_d07_a_process_that_takes_anothers_place_starts_from_nothing() -> None:
    """Killed under its streams and started again at the same address: they end elsewhere,
    no count goes below zero, and calls are spread over all three again."""
    port = free_port()
    slow = ("--slots", "8", "--step-base-ms", "20", "--step-per-running-ms", "0.1")
    async with AsyncExitStack() as stack:
        others = [stack.enter_context(emulator_process(*slow, model="chat")) for _ in "bc"]
        facts = [replica(s.url, name=name, slots=8) for s, name in zip(others, "bc", strict=True)]
        facts.append(replica(f"http://127.0.0.1:{port}", name="a", slots=8))
        first = stack.enter_context(emulator_process(*slow, "--port", str(port), model="chat"))
        gateway = await stack.enter_async_context(gate(furnished(*facts)))
        replicas = gateway.runtime.scheduler.state.replicas
        old = replicas["a"]
        lows = [
            asyncio.create_task(
                gateway.streamed(
                    f"s{n}", key=LOW_KEY, max_tokens=150, ignore_eos=True, stream_options=USAGE
                )
            )
            for n in range(12)
        ]
        await gateway.until(lambda: gateway.running == 12 and old.running >= 2)
        first.kill()
        await gateway.until(lambda: gateway.runtime.health.watches["a"].gone)
        stack.enter_context(emulator_process(*slow, "--port", str(port), model="chat"))
        await gateway.until(lambda: replicas["a"] is not old and replicas["a"].ready)
        assert replicas["a"].generation == old.generation + 1
        where: Counter[str] = Counter()
        for number, call in enumerate(lows):
            assert one_answer(await call, f"s{number}", 150)["completion_tokens"] == 150
        calls = [asyncio.create_task(gateway.chat("hi", max_tokens=4)) for _ in range(24)]
        while not all(call.done() for call in calls):
            assert all(held.running >= 0 for held in (old, *replicas.values()))
            await asyncio.sleep(0.005)
        where.update(call.result().headers["x-replica"] for call in calls)
        assert set(where) == {"a", "b", "c"}
        assert old.running == 0
