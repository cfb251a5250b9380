"""Who runs next, seen from outside: by lane, by arrival, and never beyond a replica's slots."""

import asyncio
import random
from dataclasses import replace

from scheduler.core.policy import Policy

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, chat_body, furnished, gate, replica
from .stub import DONE, Held, Seen, Wire, chat_answer, delta, stub


async def queue(gateway: Gate, prompt: str, key: str) -> asyncio.Task[int]:
    """A plain call that waits in the queue by the time this returns."""
    before = gateway.queued

    async def call() -> int:
        return (await gateway.chat(prompt, key=key)).status_code

    task = asyncio.create_task(call())
    await gateway.until(lambda: gateway.queued == before + 1)
    return task


async def test_strict_lanes_then_arrival() -> None:
    """Whatever arrived first: P0 before P1 before P2, and in a lane in order of arrival."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        first = asyncio.create_task(gateway.chat("first"))
        await gateway.until(lambda: held.order == ["first"])
        order = [("low1", LOW_KEY), ("own1", KEY), ("low2", LOW_KEY), ("top1", URGENT_KEY)]
        order += [("own2", KEY), ("top2", URGENT_KEY)]
        calls = [await queue(gateway, prompt, key) for prompt, key in order]
        held.finish("first", *(prompt for prompt, _ in order))
        assert {await call for call in calls} == {200}
        await first
        assert held.order == ["first", "top1", "top2", "own1", "own2", "low1", "low2"]


async def test_p0_goes_by_level_before_arrival() -> None:
    """The band of P0: a level before the next."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        first = asyncio.create_task(gateway.chat("first"))
        await gateway.until(lambda: held.order == ["first"])

        async def at(level: str) -> asyncio.Task[int]:
            before = gateway.queued

            async def call() -> int:
                response = await gateway.chat(level, key=URGENT_KEY, headers={"priority": level})
                return response.status_code

            task = asyncio.create_task(call())
            await gateway.until(lambda: gateway.queued == before + 1)
            return task

        calls = [await at(level) for level in ("2", "1", "0", "1")]
        held.finish("first", "0", "1", "2")
        assert {await call for call in calls} == {200}
        await first
        assert held.order == ["first", "0", "1", "1", "2"]


async def test_c05_a_burst_stays_with_us_where_order_counts() -> None:
    """C05: a replica of 8 slots, a burst of 200 P2, then one P0: the replica never sees more
    than 8 at once, and the P0 is the next to be dispatched."""
    held = Held()
    policy = Policy()
    patient = replace(policy, preemption=replace(policy.preemption, enabled=False))
    async with (
        stub(held) as server,
        gate(furnished(replica(server.url, slots=8), policy=patient)) as gateway,
    ):
        low = [f"low{n}" for n in range(200)]
        burst = [asyncio.create_task(gateway.chat(name, key=LOW_KEY)) for name in low]
        await gateway.until(lambda: gateway.queued == 192)
        urgent = asyncio.create_task(gateway.chat("urgent", key=URGENT_KEY))
        await gateway.until(lambda: gateway.queued == 193)
        await gateway.until(lambda: len(held.order) == 8)
        running = held.order[:]
        held.finish(running[3])
        await gateway.until(lambda: len(held.order) == 9)
        assert held.order[8] == "urgent"
        held.finish("urgent", *low)
        assert (await urgent).status_code == 200
        assert {(await call).status_code for call in burst} == {200}
        assert server.most == 8
        # Within a business and lane by arrival, which here is the order of the tasks' sockets.
        assert sorted(held.order) == sorted([*low, "urgent"])


async def test_c08_a_slot_freed_as_its_waiter_leaves_goes_to_the_next() -> None:
    """C08: A runs, B and C wait; A ends and B leaves in the same turn of the loop."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        first = asyncio.create_task(gateway.chat("A"))
        await gateway.until(lambda: held.order == ["A"])
        async with gateway.raw() as second:
            await second.post(KEY, chat_body("B", stream=True))
            await gateway.until(lambda: gateway.queued == 1)
            third = asyncio.create_task(gateway.chat("C"))
            await gateway.until(lambda: gateway.queued == 2)
            by_arrival = sorted(gateway.runtime.gateway.exchanges, key=lambda e: e.row.received)
            running, leaver, _ = by_arrival
            assert running.attempts is not None
            # Both in this very turn.
            running.attempts.call.close()
            leaver.interrupt("client_disconnect")
            await gateway.until(lambda: "C" in held.order)
        held.finish("A", "B", "C")
        assert (await third).status_code == 200
        assert (await first).status_code == 200
        await gateway.rest()


async def test_load_spreads_and_each_replica_keeps_to_its_slots() -> None:
    """Three replicas of different size: all full before anybody waits, none beyond."""
    held = Held()
    async with stub(held) as a, stub(held) as b, stub(held) as c:
        facts = [
            replica(server.url, name=name, slots=slots)
            for server, name, slots in ((a, "a", 1), (b, "b", 2), (c, "c", 3))
        ]
        async with gate(furnished(*facts)) as gateway:
            names = [f"n{n}" for n in range(30)]
            calls = [asyncio.create_task(gateway.chat(name)) for name in names]
            await gateway.until(lambda: gateway.queued == 24)
            await gateway.until(lambda: [server.most for server in (a, b, c)] == [1, 2, 3])
            held.finish(*names)
            assert {(await call).status_code for call in calls} == {200}
            assert [server.most for server in (a, b, c)] == [1, 2, 3]


async def test_a_crowd_of_all_kinds_comes_to_rest() -> None:
    """Three hundred calls of three businesses, plain and streamed, served, cancelled, failed
    and refused: each ends once, and in the end nothing is held anywhere."""
    rng = random.Random(11)

    async def moody(seen: Seen, wire: Wire) -> None:
        mood = rng.random()
        await asyncio.sleep(rng.random() * 0.01)
        if mood < 0.1:
            wire.reset()
        elif mood < 0.2:
            await wire.json({}, 503 if mood < 0.11 else rng.choice([500, 400]))
        elif seen.json.get("stream"):
            await wire.begin_stream()
            await wire.chunk(delta("a"))
            if mood < 0.3:
                wire.reset()
                return
            await asyncio.sleep(rng.random() * 0.02)
            await wire.chunk(delta(None, finish="stop") + DONE)
            await wire.end_stream()
        else:
            await wire.json(chat_answer())

    policy = Policy()
    short = replace(policy.queues.P2, queue_timeout_ms=400, max_queue=60)
    policy = replace(policy, queues=replace(policy.queues, P2=short))
    async with stub(moody) as a, stub(moody) as b:
        facts = [replica(a.url, name="a", slots=3), replica(b.url, name="b", slots=2)]
        async with gate(furnished(*facts, policy=policy)) as gateway:
            gateway.memory.change_business("owner", running=3, queued=40)

            async def one(number: int) -> None:
                key = rng.choice([KEY, LOW_KEY, URGENT_KEY])
                await asyncio.sleep(rng.random() * 0.5)
                async with gateway.raw() as client:
                    await client.post(key, chat_body(f"n{number}", stream=rng.random() < 0.6))
                    if rng.random() < 0.3:
                        await asyncio.sleep(rng.random() * 0.05)
                        client.reset()
                    else:
                        assert (await client.answer()).status in (200, 400, 429, 502, 503)

            await asyncio.gather(*(one(number) for number in range(300)))
            await gateway.rest()
            assert (a.most, b.most) <= (3, 2)
            ids = [row.id for row in gateway.usage.rows]
            assert len(ids) == len(set(ids))
