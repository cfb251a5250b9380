"""Verdicts on replicas that answer well, badly, late or never."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.addresses import allows
from scheduler.probing.asking import Asking
from scheduler.probing.fetching import Fetcher
from scheduler.probing.messages import Verdict
from tests.gateway.harness import EVERYWHERE, free_port
from tests.gateway.stub import Seen, Stub, Wire, stub


class Asker:
    """Asks one replica, and what came of it."""

    def __init__(self) -> None:
        self.fetcher = Fetcher(allows(EVERYWHERE))
        self.told: list[tuple[Verdict, float, str]] = []
        self.overs = 0
        self.faults: list[str] = []
        self.asking = Asking(self.fetcher, self._tell, self._over, self.faults.append)
        self._news = asyncio.Event()

    def _tell(self, number: int, verdict: Verdict, asked: float, why: str) -> None:
        self.told.append((verdict, asked, why))
        self._news.set()

    def _over(self, number: int) -> None:
        self.overs += 1

    @property
    def verdicts(self) -> list[str]:
        return [verdict.value for verdict, _, _ in self.told]

    async def until(self, count: int) -> list[str]:
        """The first verdicts, so many."""
        while len(self.told) < count:
            self._news.clear()
            await self._news.wait()
        return self.verdicts[:count]


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    found = Asker()
    yield found
    await found.asking.close()
    await found.fetcher.close()
    assert not found.asking._questions


@pytest.fixture
async def server() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(200, "well"), (204, "well"), (401, "well"), (404, "well"), (307, "unwell"), (503, "unwell")],
)
async def test_by_its_status(status: int, verdict: str, server: Stub, asker: Asker) -> None:
    """One that wants a key, or knows no such path, is up all the same."""
    server.health = lambda seen, wire: wire.answer(b"", status)
    asker.asking.begin(1, server.url)
    assert await asker.until(1) == [verdict]
    assert asker.overs == 1
    assert str(status) in asker.told[0][2]


async def test_nobody_there_or_no_http(server: Stub, asker: Asker) -> None:
    asker.asking.begin(1, f"http://127.0.0.1:{free_port()}/health")
    assert await asker.until(1) == ["gone"]

    async def hang_up(seen: Seen, wire: Wire) -> None:
        wire.hang_up()

    server.health = hang_up
    asker.asking.begin(1, server.url)
    assert await asker.until(2) == ["gone", "unwell"]


async def test_one_that_says_nothing_is_asked_again_and_again(server: Stub, asker: Asker) -> None:
    """Two of its questions are open at most, and the first answer ends it."""
    waiting: list[Seen] = []
    let = asyncio.Event()

    async def late(seen: Seen, wire: Wire) -> None:
        waiting.append(seen)
        await let.wait()
        await wire.json({})

    server.health = late
    asker.asking.begin(1, server.url)
    assert await asker.until(3) == ["silent"] * 3
    assert asker.overs == 0
    assert len(asker.asking._rounds[1].asked) == 2
    asked = [sent for _, sent, _ in asker.told]
    assert asked == sorted(asked)
    let.set()
    assert (await asker.until(4))[-1] == "well"
    assert asker.overs == 1
    assert not asker.asking._rounds


async def test_an_answer_to_the_question_before_the_last_is_one(server: Stub, asker: Asker) -> None:
    """Each is answered only when the next one has been asked."""
    later = [asyncio.Event(), asyncio.Event()]
    count = 0

    async def late(seen: Seen, wire: Wire) -> None:
        nonlocal count
        count += 1
        if count == 1:
            await later[0].wait()
            await wire.json({})
        else:
            later[0].set()
            await later[1].wait()

    server.health = late
    asker.asking.begin(1, server.url)
    assert await asker.until(2) == ["silent", "well"]
    # It was well when it was asked first.
    assert asker.told[1][1] == asker.told[0][1]
    later[1].set()


async def test_what_is_stopped_or_begun_anew_tells_nothing_more(server: Stub, asker: Asker) -> None:
    held = asyncio.Event()
    seen_first = asyncio.Event()

    async def hold(seen: Seen, wire: Wire) -> None:
        seen_first.set()
        await held.wait()
        await wire.json({}, 503)

    server.health = hold
    asker.asking.begin(1, server.url)
    asker.asking.begin(2, server.url)
    await seen_first.wait()
    server.health = lambda seen, wire: wire.json({})
    asker.asking.begin(1, server.url)
    asker.asking.stop(2)
    held.set()
    assert await asker.until(1) == ["well"]
    await asker.asking.close()
    assert asker.verdicts == ["well"]
    assert asker.overs == 1
    assert not asker.faults
