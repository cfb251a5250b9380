"""A line to a server that can be cut in mid-answer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Cutter:
    """Passes connections on to a server. Told ``cut_after`` so many events of an answer, it
    cuts that connection and forgets what it was told (0); ``cuts`` counts."""

    def __init__(self, host: str, port: int) -> None:
        self.url = ""
        self.cut_after = 0
        self.cuts = 0
        self._target = (host, port)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        there, back = await asyncio.open_connection(*self._target)
        events = 0

        async def ask() -> None:
            nonlocal events
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    events = 0
                    back.write(data)
                    await back.drain()
                back.close()

        asking = asyncio.create_task(ask())
        try:
            while data := await there.read(65536):
                events += data.count(b"data: ")
                if 0 < self.cut_after <= events:
                    self.cut_after, self.cuts = 0, self.cuts + 1
                    writer.transport.abort()
                    break
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # one end has gone: so does the other
        finally:
            asking.cancel()
            back.transport.abort()
            writer.close()


@contextlib.asynccontextmanager
async def cutting(url: str) -> AsyncIterator[Cutter]:
    """A cutter before the server at ``url``, on a free port."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    cutter = Cutter(parts.hostname, parts.port)
    server = await asyncio.start_server(cutter.serve, "127.0.0.1", 0)
    cutter.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield cutter
