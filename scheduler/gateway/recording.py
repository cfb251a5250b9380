"""An answer that is written down while it is given, so that it can be given again."""

import asyncio
from collections.abc import Iterable

import msgspec

from .asgi_types import Message, Receive, Send

# Of the first call's standing, or said of the present one.
NOT_REPEATED = (b"x-ratelimit-", b"x-client-request-id")
MOST_KEPT_BYTES = 16 * 1024 * 1024


class Answer(msgspec.Struct, frozen=True):
    """A whole answer: status, headers, body."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Recording:
    """One answer under way or complete. It is given at the pace of the model server; each caller
    follows at its own. ``request`` is its id, ``asked`` the digest of what was asked."""

    def __init__(self, request: str, asked: bytes) -> None:
        self.request = request
        self.asked = asked
        self.ended = False
        self._head: Message | None = None
        self._parts: list[bytes] = []
        self._size = 0
        self._grown = asyncio.Event()

    async def send(self, message: Message) -> None:
        """Take the next part of the answer, as ASGI has it."""
        if message["type"] == "http.response.start":
            self._head = message
        else:
            part = message.get("body", b"")
            if part:
                self._parts.append(part)
                self._size += len(part)
            self.ended = not message.get("more_body")
        self._tell()

    def close(self) -> None:
        """Nothing more comes: whoever still follows hears of it."""
        self.ended = True
        self._tell()

    def answer(self) -> Answer | None:
        """All of it, once it has ended; None where it is too long to be kept."""
        if self._head is None or self._size > MOST_KEPT_BYTES:
            return None
        return Answer(self._head["status"], list(self._head["headers"]), b"".join(self._parts))

    async def follow(self, send: Send, *, instead: Iterable[tuple[bytes, bytes]] = ()) -> None:
        """Give it to a caller, from the beginning to the end. ``instead`` are headers that stand
        for those of the first call."""
        at, begun = 0, False
        while True:
            grown, ended = self._grown, self.ended
            if self._head is not None and not begun:
                begun = True
                await send(_head(self._head["status"], self._head["headers"], instead))
            while begun and at < len(self._parts):
                at += 1
                body = self._parts[at - 1]
                await send({"type": "http.response.body", "body": body, "more_body": True})
            if ended and at == len(self._parts):
                break
            if not ended:
                await grown.wait()
        if begun:
            await send({"type": "http.response.body", "body": b""})

    def _tell(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


async def give(answer: Answer, send: Send, *, instead: Iterable[tuple[bytes, bytes]]) -> None:
    """Give a kept answer again."""
    await send(_head(answer.status, answer.headers, instead))
    await send({"type": "http.response.body", "body": answer.body})


def _head(
    status: int, headers: list[tuple[bytes, bytes]], instead: Iterable[tuple[bytes, bytes]]
) -> Message:
    found = list(instead)
    kept = [pair for pair in headers if not (found and pair[0].startswith(NOT_REPEATED))]
    return {"type": "http.response.start", "status": status, "headers": [*kept, *found]}


def whole_body(body: bytes) -> Receive:
    """A caller who has sent all of its body and does not hang up."""
    parts = [body]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(), "more_body": False}
        never: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        return await never

    return receive
