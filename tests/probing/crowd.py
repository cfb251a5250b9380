"""Hundreds of model servers at addresses of the loopback network, on a thread of their own."""

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Iterator

PORTS = 4
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Crowd:
    """``hung`` servers take connections and say nothing; may be changed at any time. ``asked``
    counts questions by server."""

    def __init__(self, count: int) -> None:
        self.hung: set[str] = set()
        self.asked: Counter[str] = Counter()
        self.urls: list[str] = []
        self.open: set[Line] = set()
        self._count = count
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="crowd")

    @contextlib.contextmanager
    def listening(self) -> Iterator["Crowd"]:
        """All of them, until the block ends."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _listen(self) -> None:
        for _ in range(PORTS):
            server = await self._loop.create_server(lambda: Line(self), "0.0.0.0", 0, backlog=1024)
            self._servers.append(server)
        ports = [server.sockets[0].getsockname()[1] for server in self._servers]
        self.urls = [
            f"http://127.0.{1 + number // 250}.{1 + number % 250}:{ports[number % PORTS]}"
            for number in range(self._count)
        ]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for line in list(self.open):
            line.close()
        await asyncio.sleep(0)


class Line(asyncio.Protocol):
    """One connection to one of them."""

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._transport: asyncio.Transport | None = None
        self._url = ""

    def close(self) -> None:
        """Reset it."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("sockname")
        self._url = f"http://{host}:{port}"
        self._crowd.open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.open.discard(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._crowd.asked[self._url] += data.count(b"\r\n\r\n")
        if self._url not in self._crowd.hung:
            self._transport.write(OK * data.count(b"\r\n\r\n"))
