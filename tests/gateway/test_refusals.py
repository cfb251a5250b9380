"""Each refusal once: status, reason code, and when to come back; and what it cost: nothing."""

import asyncio
from dataclasses import replace

import httpx
import pytest

from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, chat_body, furnished, gate, replica
from .stub import DONE, Held, stub


def queues(lane: str, **changes: object) -> Policy:
    """The default policy with one queue changed."""
    policy = Policy()
    changed = replace(getattr(policy.queues, lane), **changes)
    return replace(policy, queues=replace(policy.queues, **{lane: changed}))


def check(response: httpx.Response, status: int, reason: str) -> int:
    """The contract of refusals that may be tried again; returns milliseconds to wait."""
    assert response.status_code == status
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == reason
    assert error["type"] == ("rate_limit_error" if status == 429 else "server_error")
    assert response.headers["x-fairlane-reason"] == reason
    seconds = response.headers["retry-after"]
    millis = int(response.headers["retry-after-ms"])
    assert seconds.isdigit()
    assert int(seconds) >= 1
    assert int(seconds) * 1000 >= millis >= 1
    return millis


async def full_house(gateway: Gate, held: Held, count: int) -> list[asyncio.Task[bytes]]:
    """As many streams of the urgent business as there are slots."""
    names = [f"hold{n}" for n in range(count)]
    tasks = [asyncio.create_task(gateway.streamed(name, key=URGENT_KEY)) for name in names]
    await gateway.until(lambda: len(held.order) == count)
    return tasks


async def let_go(held: Held, tasks: list[asyncio.Task[bytes]]) -> None:
    """End them, and see that nothing happened to them."""
    held.finish(*(f"hold{n}" for n in range(len(tasks))))
    for task in tasks:
        assert (await task).endswith(DONE)


async def test_concurrency_exceeded() -> None:
    """``running`` and ``queued`` both used up; a limit of 0 blocks, none is unlimited."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=8))) as gateway:
        gateway.memory.change_business("owner", running=1, queued=1)
        await gateway.until(lambda: gateway.runtime.gateway.access.version == 1)
        first = asyncio.create_task(gateway.chat("a"))
        await gateway.until(lambda: gateway.running == 1)
        second = asyncio.create_task(gateway.chat("b"))
        await gateway.until(lambda: gateway.queued == 1)
        check(await gateway.chat("c"), 429, "concurrency_exceeded")
        # Others have limits of their own.
        held.finish("other")
        assert (await gateway.chat("other", key=LOW_KEY)).status_code == 200
        assert gateway.queued == 1
        held.finish("a", "b")
        assert {(await call).status_code for call in (first, second)} == {200}
        assert server.most == 2
        gateway.memory.change_business("owner", running=0, queued=None)
        await gateway.until(lambda: gateway.runtime.gateway.access.version == 2)
        check(await gateway.chat("d"), 429, "concurrency_exceeded")


async def test_queue_full_by_lane() -> None:
    """The lane's depth is used up: that lane refuses, another does not."""
    held = Held()
    policy = queues("P1", max_queue=2)
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=1), policy=policy)) as gateway,
    ):
        house = await full_house(gateway, held, 1)
        waiting = [asyncio.create_task(gateway.chat(f"w{n}")) for n in range(2)]
        await gateway.until(lambda: gateway.queued == 2)
        check(await gateway.chat("x"), 429, "queue_full")
        low = asyncio.create_task(gateway.chat("low", key=LOW_KEY))
        await gateway.until(lambda: gateway.queued == 3)
        held.finish("w0", "w1", "low")
        await let_go(held, house)
        assert {(await call).status_code for call in (*waiting, low)} == {200}


async def test_queue_full_by_business() -> None:
    """Its own queue is used up though it might run more."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        gateway.memory.change_business("owner", queued=1)
        await gateway.until(lambda: gateway.runtime.gateway.access.version == 1)
        house = await full_house(gateway, held, 1)
        waiting = asyncio.create_task(gateway.chat("w"))
        await gateway.until(lambda: gateway.queued == 1)
        check(await gateway.chat("x"), 429, "queue_full")
        held.finish("w")
        await let_go(held, house)
        assert (await waiting).status_code == 200


async def test_queue_timeout() -> None:
    """Refused at its time, not at another event's; those with more time wait on."""
    held = Held()
    policy = queues("P1", queue_timeout_ms=300)
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=1), policy=policy)) as gateway,
    ):
        house = await full_house(gateway, held, 1)
        low = asyncio.create_task(gateway.chat("low", key=LOW_KEY))
        await gateway.until(lambda: gateway.queued == 1)
        late = asyncio.create_task(gateway.chat("late"))
        took = await gateway.until(late.done)
        check(await late, 429, "queue_timeout")
        assert took >= 0.25
        held.finish("low")
        await let_go(held, house)
        assert (await low).status_code == 200
        row = next(row for row in gateway.usage.rows if row.reason)
        assert (row.status, row.dispatched, row.prompt_tokens) == ("queue_timeout", 0, 0)
        assert row.queue_wait_ms == 0


async def test_no_capacity() -> None:
    """No replica that serves the model is up: not ready, draining, or not allowed the lane."""
    async with stub() as server:
        draining = replace(replica(server.url), draining=True)
        async with gate(furnished(draining)) as gateway:
            check(await gateway.chat(), 503, "no_capacity")
        urgent_only = replace(replica(server.url), levels=(0, 2))
        async with gate(furnished(urgent_only)) as gateway:
            check(await gateway.chat(), 503, "no_capacity")
            assert (await gateway.chat(key=URGENT_KEY)).status_code == 200
        async with gate(furnished(replica(server.url))) as gateway:
            gateway.memory.model(ModelFacts("elsewhere"))
            gateway.memory.tell("fleet")
            await gateway.until(lambda: "elsewhere" in gateway.runtime.gateway.fleet.models)
            check(await gateway.chat(model="elsewhere"), 503, "no_capacity")
            assert (await gateway.row()).status == "refused"


async def test_tenant_suspended() -> None:
    """Its key is known and it is told why; what runs already runs on; others don't notice."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url))) as gateway:
        running = asyncio.create_task(gateway.chat("running"))
        await gateway.until(lambda: gateway.running == 1)
        gateway.memory.change_business("owner", suspended=True)
        await gateway.until(lambda: gateway.runtime.gateway.access.version == 1)
        check(await gateway.chat("x"), 429, "tenant_suspended")
        held.finish("running", "other")
        assert (await running).status_code == 200
        assert (await gateway.chat("other", key=LOW_KEY)).status_code == 200


async def test_shutting_down() -> None:
    """Readiness goes off, what waits is told to come back at once, what runs ends in peace,
    what comes is refused; each with a row."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        assert (await gateway.client.get("/readyz")).status_code == 200
        running = asyncio.create_task(gateway.streamed("a"))
        await gateway.until(lambda: held.order == ["a"])
        plain = asyncio.create_task(gateway.chat("b"))
        streamed = asyncio.create_task(gateway.chat("c", stream=True))
        await gateway.until(lambda: gateway.queued == 2)
        async with gateway.raw() as uploading:
            await uploading.begin(KEY, "Content-Length: 100")
            await gateway.until(lambda: len(gateway.runtime.gateway.exchanges) == 4)
            stopping = asyncio.create_task(gateway.runtime.gateway.stop(grace=5))
            for waiting in (plain, streamed):
                check(await waiting, 503, "shutting_down")
            assert (await uploading.answer()).status == 503
        check(await gateway.chat("d"), 503, "shutting_down")
        ready = await gateway.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "stopping")
        assert (await gateway.client.get("/healthz")).status_code == 200
        assert not stopping.done()
        held.finish("a")
        assert (await running).endswith(DONE)
        await stopping
        rows = await gateway.rows(5)
        statuses = sorted(row.status for row in rows)
        assert statuses == ["ok"] + ["shutting_down"] * 4


async def test_a_stream_that_outlasts_the_grace_time_is_told() -> None:
    """One error frame, no [DONE]: the caller knows that it is not the whole answer."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url))) as gateway:
        running = asyncio.create_task(gateway.streamed("endless"))
        await gateway.until(lambda: held.order == ["endless"])
        await gateway.runtime.gateway.stop(grace=0.1)
        body = await running
        assert b'"code":"shutting_down"' in body
        assert DONE not in body
        assert (await gateway.row()).status == "shutting_down"


async def test_a_caller_that_reads_nothing_does_not_keep_the_gateway_from_stopping() -> None:
    """Nobody can be told who does not read."""

    async def flood(seen: object, wire: object) -> None:
        await wire.begin_stream()  # type: ignore[attr-defined]
        while True:
            await wire.chunk(b"data: " + b"x" * 60000 + b"\n\n")  # type: ignore[attr-defined]

    async with (
        stub(flood) as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, chat_body(stream=True))
        transport = client.writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        await gateway.until(lambda: any(e.reply.sending for e in gateway.runtime.gateway.exchanges))
        stopping = asyncio.create_task(gateway.runtime.gateway.stop(grace=0.1))
        await gateway.until(stopping.done)
        client.reset()


async def test_a_refused_request_consumed_nothing() -> None:
    """Invariant 5, seen from outside: after a hundred refusals all is as before."""
    held = Held()
    policy = queues("P1", max_queue=1)
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=1), policy=policy)) as gateway,
    ):
        house = await full_house(gateway, held, 1)
        waiting = asyncio.create_task(gateway.chat("w"))
        await gateway.until(lambda: gateway.queued == 1)
        refusals = await asyncio.gather(*(gateway.chat("x") for _ in range(100)))
        assert {response.status_code for response in refusals} == {429}
        assert (gateway.running, gateway.queued) == (1, 1)
        held.finish("w")
        await let_go(held, house)
        assert (await waiting).status_code == 200
        refused = [row for row in await gateway.rows(102) if row.status == "refused"]
        assert len(refused) == 100
        assert {(row.prompt_tokens, row.attempts, row.gpu_seconds) for row in refused} == {
            (0, 0, 0)
        }


@pytest.mark.parametrize("key", ["", "queue", "running"])
async def test_a_policy_that_changes_keeps_what_waits(key: str) -> None:
    """Invariant 7: no change of rules strands a queued request."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        house = await full_house(gateway, held, 1)
        waiting = [asyncio.create_task(gateway.chat(f"w{n}")) for n in range(3)]
        await gateway.until(lambda: gateway.queued == 3)
        if key == "queue":
            gateway.tell_policy(queues("P1", max_queue=1))
        elif key == "running":
            gateway.memory.change_business("owner", running=1, queued=1)
        else:
            gateway.tell_policy(replace(Policy(), mode="fifo"))
        await gateway.until(
            lambda: (
                1
                in (gateway.runtime.gateway.policy_version, gateway.runtime.gateway.access.version)
            )
        )
        assert gateway.queued == 3
        held.finish("w0", "w1", "w2")
        await let_go(held, house)
        assert {(await call).status_code for call in waiting} == {200}
        assert held.order == ["hold0", "w0", "w1", "w2"]
