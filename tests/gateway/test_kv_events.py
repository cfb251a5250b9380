"""What leaves an engine's cache reaches the core."""

import ipaddress
import logging
from dataclasses import replace

import pytest

from scheduler.core.events import CacheChanged, Measured
from scheduler.emulator.app import Listening, listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.settings import Settings
from tests.kv_events.publishers import publishing, removed, stored

from .harness import Gate, furnished, gate, replica
from .spying import Told

WORDS = "word " * 300
CACHE_TOKENS = 2048
ELSEWHERE = (ipaddress.ip_network("192.0.2.0/24"),)


def small_card() -> Settings:
    """A card that forgets a prompt of 300 words after six others."""
    service = ServiceModel(kv_tokens=CACHE_TOKENS, step_base_ms=1.0, prefill_tokens_per_s=1e6)
    return Settings(service=service, max_model_len=CACHE_TOKENS, kv_events=0)


async def subscribed(running: Gate, core: Told, emulator: Listening) -> None:
    """Wait until what the emulator publishes is heard: make it say something until it is."""
    async with running.client.stream("DELETE", emulator.url + "/emulator/state"):
        pass
    await running.until(lambda: core.of(CacheChanged), within=0.3)


async def until_heard(running: Gate, core: Told, emulator: Listening) -> None:
    for _ in range(50):
        try:
            await subscribed(running, core, emulator)
        except AssertionError:
            continue
        return
    raise AssertionError("nothing is heard of the emulator's cache")


async def test_what_the_emulator_s_cache_loses_is_told(core: Told) -> None:
    """Every token that a full cache has given away, and no other."""
    async with listen(small_card()) as emulator:
        facts = replica(emulator.url, served="org/Model-7B")
        facts = replace(facts, kv_events_url=emulator.events_url)
        async with gate(furnished(facts)) as running:
            await until_heard(running, core, emulator)
            assert core.of(CacheChanged)[0] == CacheChanged("r1", None)
            before = len(core.of(CacheChanged))
            pool = emulator.emulator.engine.pool
            lost = 0
            for number in range(15):
                had = pool.idle
                answer = await running.chat(f"{number} {WORDS}", max_tokens=1)
                assert answer.status_code == 200
                blocks = answer.json()["usage"]["total_tokens"] // 16
                lost += had + blocks - pool.idle
            assert lost > 100

            def told() -> int:
                events = core.of(CacheChanged)[before:]
                assert {event.replica for event in events} <= {"r1"}
                return sum(event.evicted or 0 for event in events)

            await running.until(lambda: told() >= lost * 16)
            assert told() == lost * 16
            assert None not in [event.evicted for event in core.of(CacheChanged)[before:]]
            async with running.client.stream("DELETE", emulator.url + "/emulator/state"):
                pass
            await running.until(lambda: core.of(CacheChanged)[-1] == CacheChanged("r1", None))


async def test_how_much_the_cache_holds_is_told(core: Told) -> None:
    async with (
        listen(small_card()) as emulator,
        gate(furnished(replica(emulator.url, served="org/Model-7B"))) as running,
    ):
        await running.until(lambda: bool(core.of(Measured)))
        await running.until(lambda: core.of(Measured)[-1].cache_tokens == CACHE_TOKENS)


async def test_publishers_follow_the_fleet(core: Told) -> None:
    """One is named, moves, and is named no more, while everything runs."""
    with publishing() as one, publishing() as two:
        facts = replica("http://127.0.0.1:1")
        async with gate(furnished(facts)) as running:

            async def named(url: str) -> None:
                running.memory.replica(replace(facts, kv_events_url=url))
                running.memory.tell("fleet")

            def told(count: int) -> bool:
                return len(core.of(CacheChanged)) >= count

            await named(one.url)
            await running.until(one.is_heard)
            one.send(stored(1), removed(1))
            await running.until(lambda: told(1))
            await named(two.url)
            await running.until(two.is_heard)
            # Another publisher counts from where it is: what was missed nobody knows.
            two.number = 40
            two.send(stored(1, size=64), removed(1))
            await running.until(lambda: told(2))
            two.send(removed(2))
            await running.until(lambda: told(3))
            await named("")
            await running.until(two.is_left)
            evicted = [event.evicted for event in core.of(CacheChanged)]
            assert evicted == [16, None, 128]


async def test_publishers_live_where_replicas_may(
    core: Told, caplog: pytest.LogCaptureFixture
) -> None:
    """The address is looked at again where the connection is made, name or not."""
    caplog.set_level(logging.INFO)
    with publishing() as one:
        facts = replace(
            replica("http://127.0.0.1:1"),
            kv_events_url=one.url.replace("127.0.0.1", "localhost"),
        )
        async with gate(furnished(facts), networks=ELSEWHERE) as running:
            await running.until(lambda: "KV cache events of replica r1" in caplog.text)
            assert "outside the networks" in caplog.text
            running.runtime.kv_events._changed.set()
            await running.until(lambda: not running.runtime.kv_events._changed.is_set())
            assert not one.is_heard()
    assert caplog.text.count("KV cache events of replica r1") == 1
    assert core.of(CacheChanged) == []
