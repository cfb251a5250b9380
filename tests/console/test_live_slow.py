"""A browser that stops reading, and browsers that come and go without a word (case G05)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import pytest
from channels.layers import InMemoryChannelLayer

from console.live import consumers
from console.live.access import Pass
from console.live.board import OPERATIONS
from console.live.consumers import TOO_SLOW, LiveConsumer
from console.live.hub import Limits, LiveHub
from scheduler.live import LIVE_GROUP

from .frames import FrameSource
from .live_client import decoded

SOON = 10.0
SCOPE = {
    "type": "websocket",
    "path": "/ws/live/",
    "headers": [
        (b"host", b"testserver"),
        (b"origin", b"http://testserver"),
        (b"cookie", b"sessionid=x"),
    ],
}


class Browser:
    """One connection, played by hand: it can stop reading, or vanish."""

    def __init__(self, hub: LiveHub) -> None:
        self.incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.incoming.put_nowait({"type": "websocket.connect"})
        self.reads = asyncio.Event()
        self.reads.set()
        self.got: list[dict[str, Any]] = []
        self.news = asyncio.Event()
        self.take: Callable[[dict[str, Any]], Awaitable[None]] = self.read
        app: Any = LiveConsumer.as_asgi(hub=hub)
        self.task = asyncio.create_task(app(dict(SCOPE), self.incoming.get, self.send))

    async def send(self, message: dict[str, Any]) -> None:
        await self.take(message)

    async def read(self, message: dict[str, Any]) -> None:
        await self.reads.wait()  # as a server that waits for a full socket does
        self.got.append(message)
        self.news.set()

    async def until(self, number: int) -> None:
        """Wait until so many messages have come."""
        async with asyncio.timeout(SOON):
            while len(self.got) < number:
                self.news.clear()
                await self.news.wait()

    def leave(self) -> None:
        self.incoming.put_nowait({"type": "websocket.disconnect", "code": 1006})


@pytest.fixture
async def hub(
    layer: InMemoryChannelLayer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[LiveHub]:
    """A hub whose people are all admitted: who is let in is tested elsewhere."""
    number = 0

    def admit(session_key: str) -> Pass:
        nonlocal number
        number += 1
        return Pass(session_key, number, OPERATIONS)

    async def all_valid(entries: Collection[Pass]) -> set[Pass]:
        return set(entries)

    def directly(function: Any) -> Any:
        async def call(*args: Any) -> Any:
            return function(*args)

        return call

    monkeypatch.setattr(consumers, "admit", admit)
    monkeypatch.setattr(consumers, "database_sync_to_async", directly)
    monkeypatch.setattr("channels.consumer.aclose_old_connections", directly(lambda: None))
    monkeypatch.setattr("channels.generic.websocket.aclose_old_connections", directly(lambda: None))
    monkeypatch.setattr(consumers, "CLOSE_S", 0.05)
    hub = LiveHub(layer, all_valid, Limits(drain_s=0.2))
    await hub.start()
    yield hub
    await hub.stop()


@pytest.fixture(autouse=True)
def our_host(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]


async def test_one_that_stops_reading_is_dropped_and_holds_nobody_up(hub: LiveHub) -> None:
    source = FrameSource()
    stuck, others = Browser(hub), [Browser(hub) for _ in range(20)]
    for browser in (stuck, *others):
        await browser.until(2)  # accepted, and the first snapshot
    stuck.reads.clear()
    for frame in source.take(200):
        hub.take({"frame": frame.as_dict()})
        for browser in others:
            await browser.until(2 + frame.seq)
    async with asyncio.timeout(SOON):
        await stuck.task
    assert hub.viewers == 20
    assert len(stuck.got) == 2, "nothing was kept for it"
    for browser in others:
        texts = [decoded(message["text"]) for message in browser.got[1:]]
        assert [text["seq"] for text in texts] == list(range(201))
        browser.leave()
    await asyncio.gather(*(browser.task for browser in others))
    assert hub.viewers == 0


async def test_one_that_recovers_is_told_what_it_missed(hub: LiveHub) -> None:
    source, browser = FrameSource(), Browser(hub)
    await browser.until(2)
    hub.take({"frame": source.next().as_dict()})
    await browser.until(3)
    browser.reads.clear()
    for frame in source.take(30):
        hub.take({"frame": frame.as_dict()})
        await asyncio.sleep(0)
    browser.reads.set()
    await browser.until(5)
    stuck_on, caught_up = (decoded(message["text"]) for message in browser.got[3:5])
    assert stuck_on["seq"] == 2
    assert (caught_up["since"], caught_up["seq"]) == (2, 31)
    browser.leave()
    await browser.task


async def test_a_drop_is_told_with_its_own_code_when_it_can_be(hub: LiveHub) -> None:
    browser = Browser(hub)
    await browser.until(2)

    async def only_a_close(message: dict[str, Any]) -> None:
        if message["type"] != "websocket.close":
            await asyncio.Event().wait()
        browser.got.append(message)

    browser.take = only_a_close
    hub.take({"frame": FrameSource().next().as_dict()})
    async with asyncio.timeout(SOON):
        await browser.task
    assert browser.got[-1] == {"type": "websocket.close", "code": TOO_SLOW}


async def test_a_thousand_that_come_and_vanish_leave_nothing(
    hub: LiveHub, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    before = len(asyncio.all_tasks())
    for round_ in range(20):
        browsers = [Browser(hub) for _ in range(50)]
        for number, browser in enumerate(browsers):
            if number % 5:
                await browser.until(2)
        hub.take({"frame": source.next().as_dict()})
        for number, browser in enumerate(browsers):
            # Some say so, some are cut off by the server, some break while being written to.
            if number % 3 == 0:
                browser.leave()
            elif number % 3 == 1:
                browser.task.cancel()
            else:
                browser.incoming.put_nowait({"type": "websocket.disconnect", "code": 1001})
        await asyncio.gather(*(browser.task for browser in browsers), return_exceptions=True)
        assert hub.viewers == 0, round_
    assert layer.groups.keys() == {LIVE_GROUP}
    assert len(layer.groups[LIVE_GROUP]) == 1
    assert len(asyncio.all_tasks()) == before


async def test_a_socket_that_breaks_while_written_to_is_forgotten(hub: LiveHub) -> None:
    source, browser = FrameSource(), Browser(hub)
    await browser.until(2)

    async def broken(message: dict[str, Any]) -> None:
        raise OSError("gone")

    browser.take = broken
    hub.take({"frame": source.next().as_dict()})
    async with asyncio.timeout(SOON):
        await browser.task
    assert hub.viewers == 0
