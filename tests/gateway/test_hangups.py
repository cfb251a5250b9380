"""Callers that leave: the replica is told within a second, and everything they held comes back."""

import asyncio
import contextlib
import importlib
import random
import socket
import warnings
from collections.abc import Callable, Iterator

import pytest

from scheduler.core.events import ReplicaChanged
from scheduler.runtime import Runtime

from .harness import KEY, App, Gate, alone, chat_body, furnished, gate, replica
from .raw import RawClient
from .stub import DONE, Held, Seen, Wire, chat_answer, delta, stub, usage_event


async def count_up(seen: Seen, wire: Wire) -> None:
    """Tokens one after another, for longer than any test waits."""
    await wire.begin_stream()
    for number in range(2000):
        await wire.chunk(delta(f"t{number} "))
        await asyncio.sleep(0.01)
    await wire.stream(delta(None, finish="stop"), DONE)


async def say_nothing(seen: Seen, wire: Wire) -> None:
    """A plain answer that takes for ever."""
    await seen.closed.wait()


HANG_UPS = pytest.mark.parametrize(
    "leave", [RawClient.hang_up, RawClient.reset], ids=["FIN", "RST"]
)


@HANG_UPS
async def test_a01_a_hang_up_mid_stream_stops_the_replica_and_frees_the_slot(
    leave: Callable[[RawClient], None],
) -> None:
    """A01: closed upstream within 1 s; the next request runs; one row with what was delivered."""
    async with (
        stub(count_up) as server,
        gate(furnished(replica(server.url, slots=1))) as gateway,
    ):
        async with gateway.raw() as client:
            await client.post(KEY, chat_body("leaves", stream=True))
            await client.until(b"t5")
            server.answer = Held()
            waiting = asyncio.create_task(gateway.chat("waits"))
            await gateway.until(lambda: gateway.queued == 1)
            leave(client)
            await gateway.until(server.seen[0].closed.is_set)
        await gateway.until(lambda: len(server.seen) == 2)
        server.answer.finish("waits")
        assert (await waiting).status_code == 200
        row = gateway.usage.rows[0]
        assert (row.status, row.stream, row.attempts) == ("client_disconnect", True, 1)
        assert row.completion_tokens >= 5
        assert row.estimated
        assert len(await gateway.rows(2)) == 2


@HANG_UPS
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
async def test_a01_a_hang_up_before_the_first_token(
    leave: Callable[[RawClient], None], engine: str
) -> None:
    """A01: nothing was produced, so nothing is charged."""
    async with (
        stub(say_nothing) as server,
        gate(furnished(replica(server.url, engine=engine))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, chat_body(stream=True))
        await gateway.until(lambda: server.seen)
        leave(client)
        await gateway.until(server.seen[0].closed.is_set)
        row = await gateway.row()
        assert row.status == "client_disconnect"
        assert (row.prompt_tokens, row.completion_tokens) == (0, 0)


def composition(name: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Runtime], App]:
    """The gateway as a role serves it: alone, or beside Django, its middlewares and sockets."""
    if name == "alone":
        return alone
    with warnings.catch_warnings():
        # The console's static files need not have been collected for this.
        warnings.simplefilter("ignore")
        asgi = importlib.import_module("console.config.asgi")

    def compose(runtime: Runtime) -> App:
        monkeypatch.setattr(asgi, "runtime", lambda: runtime)
        found: App = getattr(asgi, name)
        return found

    return compose


async def scrape(gateway: Gate) -> None:
    while True:
        response = await gateway.client.get("/metrics")
        assert response.status_code == 200
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("scraped", [False, True], ids=["unwatched", "scraped"])
@pytest.mark.parametrize("composed", ["alone", "application", "gateway_application"])
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
async def test_a02_a_hang_up_on_a_plain_call_aborts_it_whatever_stands_around(
    composed: str, scraped: bool, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A02: nothing wrapped around the gateway, and no reading of its metrics, hides a hang-up."""
    compose = composition(composed, monkeypatch)
    body: dict[str, object] = {"model": "chat", "messages": [], "prompt": "x", "input": "x"}
    async with (
        stub(say_nothing) as server,
        gate(furnished(replica(server.url, engine=engine)), composed=compose) as gateway,
    ):
        scraping = asyncio.create_task(scrape(gateway)) if scraped else None
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            server.seen.clear()
            async with gateway.raw() as client:
                await client.post(KEY, body, path=path)
                await gateway.until(lambda: server.seen)
                client.hang_up()
                await gateway.until(server.seen[0].closed.is_set)
            await gateway.rest()
        assert {row.status for row in await gateway.rows(3)} == {"client_disconnect"}
        if scraping is not None:
            scraping.cancel()


@pytest.mark.parametrize("sent", ["head", "half"])
async def test_a_caller_that_leaves_while_it_uploads_takes_nothing(sent: str) -> None:
    """It never asked for anything: a row for support, no slot, no bytes held."""
    async with (
        stub() as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.begin(KEY, "Content-Length: 200000")
        if sent == "half":
            await client.send(b'{"model":"chat","x":"' + b"y" * 100_000)
            await gateway.until(lambda: gateway.runtime.gateway.bodies.held)
        await gateway.until(lambda: gateway.runtime.gateway.exchanges)
        client.hang_up()
        assert (await gateway.row()).status == "client_disconnect"
        assert not server.seen


async def test_b01_an_aborted_stream_gives_its_concurrency_back() -> None:
    """B01: concurrency 1; a stream is aborted at its second token; the next call is served."""
    async with stub(count_up) as server, gate(furnished(replica(server.url))) as gateway:
        gateway.memory.change_business("owner", running=1)
        async with gateway.raw() as client:
            await client.post(KEY, chat_body(stream=True))
            await client.until(b"t2")
            client.reset()
        await gateway.rest()
        server.answer = Held()
        server.answer.finish("after")
        assert (await gateway.chat("after")).status_code == 200


async def test_b01_two_hundred_aborts_leave_nothing_behind() -> None:
    """B01: at any moment of a call's life, on a key with concurrency 5."""
    rng = random.Random(7)
    async with stub(count_up) as server, gate(furnished(replica(server.url, slots=3))) as gateway:
        gateway.memory.change_business("owner", running=5)

        def begun() -> int:
            return len(gateway.usage.rows) + len(gateway.runtime.gateway.exchanges)

        async def abort(wave: int) -> None:
            async with gateway.raw() as client:
                await client.post(KEY, chat_body(stream=rng.random() < 0.7))
                await gateway.until(lambda: begun() >= 10 * wave)
                await asyncio.sleep(rng.random() * 0.05)
                (client.reset if rng.random() < 0.5 else client.hang_up)()

        for wave in range(1, 21):
            await asyncio.gather(*(abort(wave) for _ in range(10)))
        await gateway.rest()
        assert server.most <= 3
        server.answer = Held()
        server.answer.finish("after")
        assert (await gateway.chat("after")).status_code == 200
        rows = await gateway.rows(201)
        assert {row.status for row in rows[:-1]} == {"client_disconnect"}


async def test_c10_a_waiting_caller_that_leaves_touches_nobody_else() -> None:
    """C10: A streams, B waits, B closes: A's stream is whole, and B never reached a replica."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        running = asyncio.create_task(gateway.streamed("A"))
        await gateway.until(lambda: held.order == ["A"])
        async with gateway.raw() as waiting:
            await waiting.post(KEY, chat_body("B", stream=True))
            await gateway.until(lambda: gateway.queued == 1)
        await gateway.until(lambda: gateway.queued == 0)
        held.finish("A")
        expected = [delta("<A"), delta(">"), delta(None, finish="stop"), DONE]
        assert await running == b"".join(expected)
        assert held.order == ["A"]
        statuses = {row.status for row in await gateway.rows(2)}
        assert statuses == {"ok", "client_disconnect"}


async def test_c10_cancelling_twice_or_too_late_hits_no_successor() -> None:
    """C10: a cancel names one attempt; whoever holds the slot by then runs on."""
    held = Held()
    async with stub(held) as server, gate(furnished(replica(server.url, slots=1))) as gateway:
        first = asyncio.create_task(gateway.chat("A"))
        await gateway.until(lambda: held.order == ["A"])
        call_a = next(iter(gateway.runtime.scheduler.calls.values()))
        second = asyncio.create_task(gateway.streamed("B"))
        await gateway.until(lambda: gateway.queued == 1)
        held.finish("A")
        assert (await first).status_code == 200
        await gateway.until(lambda: held.order == ["A", "B"])
        for _ in range(2):
            call_a.close()
        await asyncio.sleep(0)
        assert gateway.running == 1
        third = asyncio.create_task(gateway.chat("C"))
        await gateway.until(lambda: gateway.queued == 1)
        held.finish("B", "C")
        assert (await second).endswith(DONE)
        assert (await third).status_code == 200
        assert server.most == 1


async def test_a_client_that_closes_at_the_last_word_has_been_served() -> None:
    """Clients that stop reading at [DONE] close before the stream's own end: no disconnect."""
    last = asyncio.Event()

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.begin_stream()
        await wire.chunk(delta("a") + delta(None, finish="stop") + usage_event() + DONE)
        await last.wait()
        await wire.end_stream()

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        for _ in range(20):
            async with gateway.raw() as client:
                await client.post(KEY, chat_body(stream=True))
                await client.until(b"[DONE]")
                client.hang_up()
        last.set()
        rows = await gateway.rows(20)
        assert {row.status for row in rows} == {"ok"}
        assert {row.completion_tokens for row in rows} == {3}


@contextlib.contextmanager
def deaf_port() -> Iterator[int]:
    """A port at which connecting takes for ever: it listens, and its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = int(listener.getsockname()[1])
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


async def test_d08_cancelled_calls_leave_no_connection_in_use() -> None:
    """D08: 50 calls end while connecting, waiting or streaming, some of them twice: the pool of
    connections is empty after them, and the next call is served within a second."""
    rng = random.Random(3)
    with deaf_port() as port:
        deaf = replica(f"http://127.0.0.1:{port}", name="deaf", slots=10)
        async with stub(count_up) as server, gate(furnished(replica(server.url))) as gateway:
            # Told past the probes, which would find it unwell.
            pool = gateway.memory.pools["pool"]
            gateway.runtime.scheduler.set_replica(ReplicaChanged(deaf, pool, True, 1))

            all_taken = asyncio.Event()

            async def end() -> None:
                async with gateway.raw() as client:
                    await client.post(KEY, chat_body(stream=rng.random() < 0.7))
                    await all_taken.wait()
                    await asyncio.sleep(rng.random() * 0.1)
                    for exchange in list(gateway.runtime.gateway.exchanges)[:2]:
                        exchange.interrupt(rng.choice(["shutting_down", "client_disconnect"]))
                    client.hang_up()

            ending = [asyncio.create_task(end()) for _ in range(50)]
            await gateway.until(lambda: gateway.running == 14 and len(server.seen) == 4)
            all_taken.set()
            await asyncio.gather(*ending)
            await gateway.rest()
            assert gateway.open_connections == 0
            gateway.runtime.scheduler.set_replica(ReplicaChanged(deaf, pool, False, 1))

            async def prompt(seen: Seen, wire: Wire) -> None:
                await wire.json(chat_answer())

            server.answer = prompt
            call = asyncio.create_task(gateway.chat())
            await gateway.until(call.done)
            assert (await call).status_code == 200
            replicas = {row.replica for row in await gateway.rows(51)}
            assert replicas >= {"r1", "deaf"}
