"""Changes made elsewhere, as the running gateway takes them up."""

import asyncio
import threading
from dataclasses import replace

import pytest
from channels.layers import InMemoryChannelLayer

from metering.core.facts import AccessSnapshot
from metering.core.keys import digest
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy
from scheduler.testing import Memory
from scheduler.worker import CHANNEL, Worker

from .harness import KEY, LOW_KEY, furnished, gate, replica
from .stub import DONE, Held, stub


async def test_a_revoked_key_a_new_one_and_a_new_limit() -> None:
    """As soon as they are told; streams that run go on."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url))) as gateway:
        memory, access = gateway.memory, gateway.runtime.gateway
        async with gateway.stream("runs") as response:
            assert response.status_code == 200
            del memory.keys[digest(KEY, memory.pepper)]
            memory.key("fl_live_brandnewbrandnewbrandnew", "owner")
            memory.tell("access")
            await gateway.until(lambda: access.access.version == 1)
            held.finish("runs", "new")
            assert (await gateway.chat()).status_code == 401
            fresh = await gateway.chat("new", key="fl_live_brandnewbrandnewbrandnew")
            assert fresh.status_code == 200
            assert (await response.aread()).endswith(DONE)


async def test_a_key_ends_at_its_time_without_being_told() -> None:
    """Expiry needs no message."""
    memory = furnished()
    memory.key("fl_live_endssoonendssoonendssoon", "owner", expires=1)
    async with stub() as server:
        memory.replica(replica(server.url))
        async with gate(memory) as gateway:
            key = "fl_live_endssoonendssoonendssoon"
            assert (await gateway.chat(key=key)).status_code == 401


async def test_a_fleet_that_changes_under_traffic() -> None:
    """A replica that is added serves; one that is removed runs its streams to their end and
    gets nothing new; one that moves to another address is another."""
    held = Held()
    async with stub(held) as first, stub(held) as second:
        async with gate(furnished(replica(first.url, name="a"))) as gateway:
            memory = gateway.memory
            async with gateway.stream("runs") as response:
                memory.replica(replica(second.url, name="b"))
                del memory.replicas["a"]
                memory.model(ModelFacts("new"))
                memory.tell("fleet")
                await gateway.until(lambda: set(gateway.runtime.scheduler.state.replicas) == {"b"})
                held.finish("runs", "later", "moved")
                assert (await gateway.chat("later")).headers["x-replica"] == "b"
                assert (await response.aread()).endswith(DONE)
            memory.replica(replica(first.url, name="b"))
            memory.tell("fleet")
            await gateway.until(
                lambda: gateway.runtime.scheduler.state.replicas["b"].facts.url == first.url
            )
            assert (await gateway.chat("moved")).status_code == 200
            assert [seen.prompt for seen in first.seen] == ["runs", "moved"]
            assert [seen.prompt for seen in second.seen] == ["later"]
        assert not gateway.runtime.scheduler.state.requests


async def test_a_policy_that_changes() -> None:
    """The next request is classified by it."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        assert (await gateway.chat(key=LOW_KEY)).headers["x-lane"] == "P2"
        lanes = replace(Policy().lanes, P0=(0, 2), P1=(3, 8), P2=(9, 9))
        gateway.tell_policy(replace(Policy(), lanes=lanes))
        await gateway.until(lambda: gateway.runtime.gateway.policy_version == 1)
        assert (await gateway.chat(key=LOW_KEY)).headers["x-priority-level"] == "9"


async def test_what_was_read_earlier_never_replaces_what_was_read_later() -> None:
    """Two changes on each other's heels, the first read of which is slow: a revoked key must
    not come back with it."""
    slow, reads = threading.Event(), 0

    class Slow(Memory):
        def access(self) -> AccessSnapshot:
            nonlocal reads
            reads += 1
            found = super().access()
            if reads == 2:
                slow.wait(5)
            return found

    memory = furnished()
    patient = Slow(
        pepper=memory.pepper,
        businesses=memory.businesses,
        keys=memory.keys,
        pools=memory.pools,
        models=memory.models,
    )
    async with stub() as server:
        patient.replica(replica(server.url))
        async with gate(patient) as gateway:
            patient.tell("access")
            await gateway.until(lambda: reads == 2)
            del patient.keys[digest(KEY, patient.pepper)]
            patient.version += 1
            late = gateway.runtime._spawn
            late(gateway.runtime.reload("access"), "told twice")
            slow.set()
            await gateway.until(lambda: gateway.runtime.gateway.access.version == 2)
            assert (await gateway.chat()).status_code == 401


async def test_the_ear_on_the_channel_layer_outlives_what_cannot_be_read() -> None:
    """A database that is away, or a message that makes no sense, costs that message."""
    heard: list[str] = []

    async def take_up(topic: str) -> None:
        heard.append(topic)
        if topic == "fleet":
            raise OSError("the database is away")

    layer = InMemoryChannelLayer()
    worker = Worker(layer, take_up)
    for message in (
        {"type": "scheduler.changed", "topic": "fleet"},
        {"type": "something.else"},
        {"topic": "access"},
        {"type": "scheduler.changed"},
        {"type": "scheduler.changed", "topic": "policy"},
    ):
        await layer.send(CHANNEL, message)
    with pytest.raises(TimeoutError):
        await run_for(worker, 0.2)
    assert heard == ["fleet", "", "policy"]


async def run_for(worker: Worker, seconds: float) -> None:
    """Let it listen for a while."""
    async with asyncio.timeout(seconds):
        await worker.run()
