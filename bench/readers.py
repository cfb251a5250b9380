"""Callers that read streams, as cheaply as they can, and count what arrives."""

import asyncio
import json

from .machine import BenchError

STREAMS = 32
IN_A_ROW = 2
BODY = json.dumps(
    {"model": "chat", "prompt": "Does the quarterly report show it?", "max_tokens": 250}
    | {"stream": True}
).encode()


class Reader(asyncio.Protocol):
    """One connection: asks for one stream after the other."""

    def __init__(self, request: bytes) -> None:
        self.events = 0
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._left = IN_A_ROW
        self._tail = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if not self.over.done():
            self.over.set_exception(BenchError(f"a stream broke off: {self._tail[-200:]!r}"))

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        assert self._transport is not None
        self.events += data.count(b"data: {")
        self._tail = self._tail[-300:] + data
        if not self._tail.endswith(b"0\r\n\r\n"):
            return
        if b"[DONE]" not in self._tail:
            self._transport.close()
            return
        self._tail = b""
        self._left -= 1
        if self._left:
            self._transport.write(self._request)
        else:
            self.over.set_result(None)
            self._transport.close()


def request(port: int, key: str, body: bytes = BODY) -> bytes:
    """The bytes that ask for one stream."""
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
        f"content-type: application/json\r\nauthorization: Bearer {key}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _read(port: int, key: str, body: bytes) -> int:
    asked = request(port, key, body)
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: Reader(asked), "127.0.0.1", port)
        for _ in range(STREAMS)
    ]
    await asyncio.gather(*(reader.over for _, reader in made))
    return sum(reader.events for _, reader in made)


def read_streams(port: int, key: str, body: bytes = BODY) -> int:
    """Read all streams to their end; returns the number of events. Raises BenchError."""
    return asyncio.run(_read(port, key, body))
