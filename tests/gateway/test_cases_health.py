"""Failures that systems of this kind had, as they would look here: replicas that are slow,
silent or refused by one bad caller."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace

from scheduler.core.fleet import ModelFacts

from .answers import states
from .harness import KEY, LOW_KEY, chat_body, furnished, gate, limits, replica, unbroken
from .raw import CHAT
from .stub import Held, Seen, Wire, polite, stub

TOO_LONG: dict[str, object] = {
    "error": {
        "message": "This model's maximum context length is 4096 tokens.",
        "type": "BadRequestError",
        "param": "input_tokens",
        "code": 400,
    }
}


async def test_d02_one_bad_client_takes_no_replica_out() -> None:
    """Twenty prompts that are too long, each refused by the engine and so told; then somebody
    else's call is served by the same replica."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await (wire.json(TOO_LONG, 400) if seen.prompt == "long" else polite(seen, wire))

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        for _ in range(20):
            refused = await gateway.chat("long")
            assert refused.status_code == 400
            assert refused.json() == TOO_LONG
            assert refused.headers["x-fairlane-reason"] == "context_length_exceeded"
        assert states(gateway) == {"r1": "ready"}
        assert (await gateway.chat("short", key=LOW_KEY)).status_code == 200
        assert len(server.seen) == 21


async def test_d05_a_slow_first_byte_is_not_asked_for_twice() -> None:
    """Three replicas take the body and say nothing. Each call reaches one of them, which is
    told to stop when its time is up: no prompt is computed twice at the worst moment."""
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(Held())) for _ in range(3)]
        replicas = [replica(s.url, name=f"r{n}") for n, s in enumerate(servers)]
        memory = furnished(*replicas, policy=limits(first_byte_ms=600))
        gateway = await stack.enter_async_context(gate(memory))
        answers = await asyncio.gather(*(gateway.chat(f"long {n}") for n in range(10)))
        assert {answer.status_code for answer in answers} == {504}
        seen = [one for server in servers for one in server.seen]
        assert len(seen) == 10
        await gateway.until(lambda: all(one.closed.is_set() for one in seen))


async def test_b02_time_outs_leave_no_count_behind() -> None:
    """Ten at once, all that the business may have, end in time-outs: it has ten again."""
    held = Held()
    async with stub(held) as server:
        facts = replica(server.url, slots=16)
        memory = furnished(facts, policy=unbroken(limits(first_byte_ms=600)))
        memory.businesses["owner"] = replace(memory.businesses["owner"], running=10)
        async with gate(memory) as gateway:
            answers = await asyncio.gather(*(gateway.chat(f"x {n}") for n in range(10)))
            assert {answer.status_code for answer in answers} == {504}
            assert gateway.running == 0
            server.answer = polite
            again = await asyncio.gather(*(gateway.chat(f"y {n}") for n in range(10)))
            assert {answer.status_code for answer in again} == {200}


async def test_d10_a_silent_replica_ties_up_nothing_else() -> None:
    """A takes calls and never answers, B is well. Forty calls, half of them for A's model: B's
    are served, A's end within their time, and the service endpoints answer all the while."""
    async with (
        stub(Held()) as silent,
        stub() as well,
        AsyncExitStack() as stack,
    ):
        memory = furnished(replica(well.url, name="b", slots=8), policy=limits(first_byte_ms=1500))
        memory.model(ModelFacts("other"))
        memory.replica(replace(replica(silent.url, name="a", slots=64), models={"other": "o"}))
        gateway = await stack.enter_async_context(gate(memory))
        stuck = [
            asyncio.create_task(
                gateway.client.post(
                    CHAT,
                    json=chat_body(f"s {n}") | {"model": "other"},
                    headers=gateway.headers(KEY),
                )
            )
            for n in range(20)
        ]
        await gateway.until(lambda: len(silent.seen) == 20)
        for path in ("/healthz", "/metrics", "/readyz"):
            assert (await gateway.client.get(path)).status_code == 200
        for number in range(20):
            assert (await gateway.chat(f"w {number}")).status_code == 200
        for call in stuck:
            answer = await call
            assert answer.status_code == 504
            assert json.loads(answer.content)["error"]["code"] == "upstream_timeout"
