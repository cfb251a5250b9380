"""A replica answers a request of ours before it gets anybody's urgent one."""

import asyncio
import json
from dataclasses import replace

from scheduler.core.fleet import ModelFacts

from .answers import states
from .harness import URGENT_KEY, furnished, gate, replica
from .stub import Seen, Wire, chat_answer, polite, stub

OURS = "Hello"


class Warming:
    """Answers callers at once, and our own request when it is told to."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.asked: list[Seen] = []
        self.let = asyncio.Event()

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        if seen.prompt != OURS:
            await polite(seen, wire)
            return
        self.asked.append(seen)
        await self.let.wait()
        await wire.json(chat_answer(), self.status)


async def test_urgent_calls_wait_for_it_and_others_do_not() -> None:
    answer = Warming()
    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, served="org/M"), warm_up=True)) as gateway,
    ):
        await gateway.until(lambda: answer.asked)
        assert json.loads(answer.asked[0].body) == {
            "model": "org/M",
            "messages": [{"role": "user", "content": OURS}],
            "max_tokens": 1,
        }
        urgent = asyncio.create_task(gateway.chat("now", key=URGENT_KEY))
        await gateway.until(lambda: gateway.queued == 1)
        assert (await gateway.chat("usual")).status_code == 200
        assert gateway.queued == 1
        answer.let.set()
        assert (await urgent).status_code == 200
        assert [seen.prompt for seen in server.seen] == [OURS, "usual", "now"]
        # Ours is nobody's: no row, no tokens.
        assert len(await gateway.rows(2)) == 2


async def test_they_go_to_a_replica_that_is_warm() -> None:
    answer = Warming()
    async with (
        stub(answer) as slow,
        stub() as quick,
        gate(
            furnished(replica(slow.url, name="a"), replica(quick.url, name="b"), warm_up=True)
        ) as gateway,
    ):
        for _ in range(8):
            answered = await gateway.chat("now", key=URGENT_KEY)
            assert answered.headers["x-replica"] == "b"
        answer.let.set()
        replicas = gateway.runtime.scheduler.state.replicas
        await gateway.until(lambda: replicas["a"].warm)


async def test_one_that_fails_is_asked_again() -> None:
    """It says that it is well and answers nothing: no urgent call is spent on finding out."""
    answer = Warming(500)
    answer.let.set()
    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url), warm_up=True)) as gateway,
    ):
        urgent = asyncio.create_task(gateway.chat("now", key=URGENT_KEY))
        await gateway.until(lambda: len(answer.asked) >= 2)
        assert states(gateway) == {"r1": "ready"}
        assert not urgent.done()
        answer.status = 200
        assert (await urgent).status_code == 200


async def test_what_knows_no_chat_is_warm_when_it_says_so() -> None:
    """An embedding server refuses the question: that is an answer. One that serves models
    without tokens is not asked at all."""
    answer = Warming(404)
    answer.let.set()
    async with stub(answer) as server, stub(answer) as fixed:
        memory = furnished(replica(server.url), warm_up=True)
        memory.model(ModelFacts("detect", generative=False))
        memory.replica(replace(replica(fixed.url, name="f"), models={"detect": "detect"}))
        async with gate(memory) as gateway:
            replicas = gateway.runtime.scheduler.state.replicas
            await gateway.until(lambda: all(held.warm for held in replicas.values()))
            assert len(answer.asked) == 1


async def test_after_it_was_away_it_is_warmed_again() -> None:
    answer = Warming()
    answer.let.set()
    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url), warm_up=True)) as gateway,
    ):
        replicas = gateway.runtime.scheduler.state.replicas
        await gateway.until(lambda: replicas["r1"].warm)
        well = server.health

        async def unwell(seen: Seen, wire: Wire) -> None:
            await wire.json({}, 503)

        server.health = unwell
        await gateway.until(lambda: states(gateway)["r1"] == "down")
        answer.let.clear()
        server.health = well
        await gateway.until(lambda: len(answer.asked) == 2)
        assert not replicas["r1"].warm
        answer.let.set()
        await gateway.until(lambda: replicas["r1"].warm)
        assert (await gateway.chat("now", key=URGENT_KEY)).status_code == 200
