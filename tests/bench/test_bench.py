"""The benchmark measures what it says; how fast anything is, is its own affair."""

import asyncio
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from bench import events, readers
from bench.core import REPLICAS, SLOTS, World
from bench.killer import Killer, make_app
from bench.machine import BenchError
from bench.readers import Reader
from bench.report import paired, rounded, table
from bench.resume import Seen, drive
from scheduler.emulator.app import listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.settings import Settings


def test_the_queue_keeps_its_length_while_arrivals_and_ends_alternate() -> None:
    world = World(60)
    assert world.run(300) > 0
    world.check(60)
    assert sum(replica.running for replica in world.state.replicas.values()) == REPLICAS * SLOTS
    with pytest.raises(BenchError):
        world.check(61)


def test_the_same_seed_makes_the_same_events() -> None:
    first, second = World(20), World(20)
    assert list(first.tickets(50)) == list(second.tickets(50))


async def test_readers_count_each_event_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "EVENTS", 7)
    monkeypatch.setattr(events, "EVERY_S", 0.0)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(events.Stream, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        request = readers.request(port, "fl_live_key")
        _, reader = await loop.create_connection(lambda: Reader(request), "127.0.0.1", port)
        async with asyncio.timeout(10):
            await reader.over
    # Beside the tokens each stream has a finish reason and a usage report.
    assert reader.events == readers.IN_A_ROW * (7 + 2)


def test_ratios_are_taken_round_by_round() -> None:
    assert paired([1.0, 8.0, 3.0], [2.0, 8.0, 4.0], lambda value: value) == 0.75


def test_figures_as_json_and_as_text() -> None:
    assert rounded({"a": 1.23456, "b": [{"c": 2.00049}], "d": None}) == {
        "a": 1.235,
        "b": [{"c": 2.0}],
        "d": None,
    }
    assert table(["peer", "rps"], [["bare", 6900.4], ["x", None]]) == (
        "peer    rps\nbare  6,900\nx         -"
    )


def test_the_ninety_fifth_wait_is_by_nearest_rank() -> None:
    assert Seen([float(n) for n in range(40, 0, -1)]).p95 == 38.0
    assert Seen([7.0]).p95 == 7.0


async def test_the_gateway_that_kills_ends_a_low_stream_with_an_error() -> None:
    """It stands for what others do: the urgent call has its slot at once, the low one an
    error in its place."""
    model = ServiceModel(slots=1, step_base_ms=5)
    async with AsyncExitStack() as stack:
        card = await stack.enter_async_context(listen(Settings(service=model, models=("m",))))
        runner = web.AppRunner(make_app(Killer(card.url, 1)))
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        seen = await drive(port, "urgent", "low", model="m", calls=2, every_s=0.1)
    assert len(seen.waits) == 2
    assert seen.errors >= 1
