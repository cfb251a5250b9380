"""Event streams on the wire: straight from the engine's step to the socket, or with faults."""

import asyncio
import socket
import struct
import zlib
from contextlib import suppress

from aiohttp import ClientConnectionResetError, web

from .calls import Call
from .errors import error_body
from .faults import Faults

HOP_HEADERS = {
    "Connection": "keep-alive, X-Hop",
    "X-Hop": "1",
    "Keep-Alive": "timeout=5",
    "Proxy-Authenticate": "Basic",
    "Trailer": "X-Checksum",
    "Set-Cookie": "engine=1; Path=/",
}
_EVENT_END = b"\n\n"
# Bytes sent before a reset have to be read by the peer's kernel first.
_RESET_AFTER_S = 0.05


class Wire:
    """Writes to the socket of a prepared response, framed by hand where it is chunked: a write
    per step must not cost a task switch per stream."""

    def __init__(self, request: web.Request, *, chunked: bool) -> None:
        self._transport = request.transport
        self._chunked = chunked

    def write(self, data: bytes) -> None:
        """Send now; a peer that is gone is noticed elsewhere."""
        transport = self._transport
        if transport is None or transport.is_closing() or not data:
            return
        transport.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def reset(self) -> None:
        """Break the connection with a TCP reset."""
        transport = self._transport
        if transport is None:
            return
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()


async def send_stream(request: web.Request, call: Call, faults: Faults) -> web.StreamResponse:
    """Answer with the events of ``call``. Cancelled when the client leaves."""
    headers = {"Content-Type": "text/event-stream; charset=utf-8"}
    if faults.gzip:
        headers |= {**HOP_HEADERS, "Content-Encoding": "gzip"}
    response = web.StreamResponse(headers=headers)
    chunked = request.version >= (1, 1)
    if chunked:
        response.enable_chunked_encoding()
    await response.prepare(request)
    wire = Wire(request, chunked=chunked)
    if faults.in_stream:
        await _FaultyStream(wire, faults).run(call)
    else:
        call.emit = wire.write
        call.start()
        await call.done
    if request.transport is not None:
        # A client may leave between its last event and the end of the body.
        with suppress(ClientConnectionResetError):
            await response.write_eof()
    return response


class _StreamBrokenError(Exception):
    """The fault has ended the stream."""


class _FaultyStream:
    """Events go through a queue, so that a fault may wait between two writes."""

    def __init__(self, wire: Wire, faults: Faults) -> None:
        self._wire = wire
        self._faults = faults
        self._chunks = 0
        self._tokens = 0
        self._padded = not faults.huge_line_bytes
        self._zip = zlib.compressobj(wbits=31) if faults.gzip else None

    async def run(self, call: Call) -> None:
        """Until the call is done or a fault has ended it."""
        if self._faults.raw_events is not None:
            for raw in self._faults.raw_events:
                await self._put(raw.encode())
            return
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        call.emit = queue.put_nowait
        call.done.add_done_callback(lambda _: queue.put_nowait(None))
        call.start()
        try:
            while (events := await queue.get()) is not None:
                for event in events.split(_EVENT_END)[:-1]:
                    await self._one(event + _EVENT_END)
        except _StreamBrokenError:
            call.abort()
        if self._zip is not None:
            self._wire.write(self._zip.flush())

    async def _one(self, event: bytes) -> None:
        faults = self._faults
        if self._chunks == faults.reset_after_chunks:
            await asyncio.sleep(_RESET_AFTER_S)
            self._wire.reset()
            raise _StreamBrokenError
        if self._chunks == faults.error_after_chunks:
            await self._put(b"data: " + error_body(faults.error_message, 500) + _EVENT_END)
            raise _StreamBrokenError
        is_token = b'"delta":{"content":' in event or b'"text":' in event
        if is_token and self._tokens == faults.stall_after_tokens:
            await asyncio.sleep(3e6 if faults.stall_s is None else faults.stall_s)
        self._tokens += is_token
        if is_token and not self._padded:
            self._padded = True
            event = _padded(event, faults.huge_line_bytes)
        self._chunks += 1
        await self._put(event)

    async def _put(self, data: bytes) -> None:
        if self._zip is not None:
            data = self._zip.compress(data) + self._zip.flush(zlib.Z_SYNC_FLUSH)
        if not self._faults.byte_writes:
            self._wire.write(data)
            # Raw events are one write each on the wire too.
            await asyncio.sleep(0)
            return
        for at in range(len(data)):
            self._wire.write(data[at : at + 1])
            await asyncio.sleep(0)


def _padded(event: bytes, size: int) -> bytes:
    """The event with a content long enough to make its line ``size`` bytes."""
    for key in (b'"delta":{"content":"', b'"text":"'):
        head, found, tail = event.partition(key)
        if found:
            return head + found + b"x" * max(0, size - len(event) + 2) + tail
    return event
