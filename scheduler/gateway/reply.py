"""The caller's side of a request: one response, started as late as it can be."""

import asyncio
from collections.abc import Callable

from .asgi_types import EVENT_STREAM, JSON, Send, respond
from .errors import GatewayError

STREAM_HEADERS = (EVENT_STREAM, (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class Reply:
    """Sends the response head once, then events, comments, an error, or one plain body.

    ``headers`` gives Fairlane's own headers as they stand when the head goes out. Comments
    come from another task than the rest, so each send waits for one under way.
    """

    __slots__ = (
        "_headers",
        "_lock",
        "_send",
        "bytes_out",
        "commented",
        "ended",
        "sending",
        "started",
        "status",
    )

    def __init__(self, send: Send, headers: Callable[[], list[tuple[bytes, bytes]]]) -> None:
        self._send = send
        self._headers = headers
        self._lock: asyncio.Task[None] | None = None
        self.started = False
        self.ended = False
        self.sending = False
        self.commented = 0.0
        self.status = 0
        self.bytes_out = 0

    async def plain(
        self, status: int, body: bytes, extra: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """A whole JSON answer; as one event where a stream has begun."""
        await self._settle()
        if self.started:
            # Outside its strings JSON may have line ends; an event's data may not.
            await self.event(b"data: " + b" ".join(body.splitlines()) + b"\n\n")
            await self.end()
            return
        self.started = self.ended = True
        self.status = status
        self.bytes_out += len(body)
        await respond(self._send, status, body, [JSON, *self._headers(), *(extra or [])])

    async def event(self, events: bytes) -> None:
        """Bytes of whole events."""
        if self._lock is not None:
            await self._settle()
        if not self.started:
            await self._begin()
        self.bytes_out += len(events)
        # Waits as long as the caller does not read: that is what bounds memory.
        self.sending = True
        await self._send({"type": "http.response.body", "body": events, "more_body": True})
        self.sending = False

    async def end(self) -> None:
        """The stream is complete."""
        await self._settle()
        if not self.started:
            await self._begin()
        self.ended = True
        await self._send({"type": "http.response.body", "body": b""})

    async def fail(self, error: GatewayError) -> None:
        """The error: as the response, or in-band after a 200, with no [DONE] behind it."""
        if self.ended:
            return
        if self.started:
            await self.event(error.frame())
            await self.end()
        else:
            await self.plain(error.status, error.body(), error.headers())

    def comment(self, text: str, now: float) -> None:
        """A comment line that keeps the connection alive; no part of the answer."""
        if self.ended or (self._lock is not None and not self._lock.done()):
            return
        self.commented = now
        self._lock = asyncio.get_running_loop().create_task(self._comment(text))

    async def _comment(self, text: str) -> None:
        if not self.started:
            await self._begin()
        line = f": {text}\n\n".encode()
        await self._send({"type": "http.response.body", "body": line, "more_body": True})

    def unlink(self) -> None:
        """It is over: let go of whoever made the headers."""
        self._headers = list

    async def _settle(self) -> None:
        if self._lock is not None:
            await asyncio.shield(self._lock)
            self._lock = None

    async def _begin(self) -> None:
        self.started = True
        self.status = 200
        headers = [*STREAM_HEADERS, *self._headers()]
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
