"""A slot is free when the engine has seen that we left."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.gateway.hangup import NOTICED_S, hang_up


class Side:
    """A server of one connection that lets go of it when told to."""

    def __init__(self) -> None:
        self.seen_end = asyncio.Event()
        self.let_go = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"unread")
        while await reader.read(100):
            pass
        self.seen_end.set()
        await self.let_go.wait()
        writer.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Side, asyncio.StreamWriter]]:
    side = Side()
    server = await asyncio.start_server(side.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        yield side, writer
        side.let_go.set()
        writer.close()


async def test_it_lasts_until_the_other_side_has_let_go() -> None:
    async with connected() as (side, writer):
        leaving = asyncio.create_task(hang_up(writer.transport, writer.close))
        await side.seen_end.wait()
        assert not leaving.done()
        side.let_go.set()
        async with asyncio.timeout(NOTICED_S):
            await leaving


async def test_an_engine_that_does_not_notice_is_not_waited_for() -> None:
    async with connected() as (side, writer):
        async with asyncio.timeout(5):
            await hang_up(writer.transport, writer.close)
        assert not side.let_go.is_set()


async def test_what_is_closed_already_is_left_at_once() -> None:
    async with connected() as (_, writer):
        writer.close()
        await writer.wait_closed()
        closed = []
        await hang_up(writer.transport, lambda: closed.append("once"))
        assert closed == ["once"]
    await hang_up(None, lambda: closed.append("twice"))
    assert closed == ["once", "twice"]
