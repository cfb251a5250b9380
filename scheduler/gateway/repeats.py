"""Calls with an ``Idempotency-Key``: made once, answered as often as they are repeated.

The first one runs by itself, to its end whether or not its caller stays: a caller who lost the
connection asks again and gets the same answer, under the same id. What failed is forgotten, and
asking again makes it anew.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from hashlib import sha256

import msgspec

from scheduler.ports import AnswerStore, Clock

from .asgi_types import Message, Receive, Send
from .callers import Caller
from .errors import GatewayError
from .exchange import Exchange
from .ids import RequestIds
from .incoming import BodyBudget, Booking, Incoming, check_body, discard_body, read_body
from .recording import Answer, Recording, give, whole_body

log = logging.getLogger(__name__)

# An answer stays at hand for this long after its end: whoever looked for it before it was kept
# finds it here.
AT_HAND_S = 5.0
SWEEP_S = 600.0
LAST_KEPT_S = 2.0
HEADER = "Idempotency-Key"
Run = Callable[[str, Receive, Send], Awaitable[Exchange]]


class Kept(msgspec.Struct, frozen=True):
    """What is kept of a call: its id, the digest of what was asked, and the answer. Without one
    it was under way when it was written: should its process have died, the next call with the
    key has the same id, and so is charged in the same row."""

    request: str
    asked: bytes
    answer: Answer | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Kept).decode


class Repeats:
    """Belongs to one event loop."""

    def __init__(
        self, store: AnswerStore, bodies: BodyBudget, clock: Clock, ids: RequestIds
    ) -> None:
        self._store = store
        self._bodies = bodies
        self._clock = clock
        self._ids = ids
        self._live: dict[bytes, Recording] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Drop what has been kept long enough, now and then, until cancelled."""
        while True:
            await asyncio.to_thread(self._store.sweep, self._clock.now())
            await asyncio.sleep(SWEEP_S)

    async def close(self) -> None:
        """Return when the answers that are complete are kept."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=LAST_KEPT_S)

    async def serve(
        self,
        incoming: Incoming,
        caller: Caller,
        operation: str,
        receive: Receive,
        send: Send,
        run: Run,
    ) -> None:
        """Serve one call; ``run`` makes the request, under an id, as if its caller had sent and
        would hear what it is given."""
        booking = Booking(self._bodies)
        try:
            check_body(incoming, self._bodies)
            body = await read_body(receive, booking, incoming.length)
        except GatewayError as error:
            await run(self._ids.new(), _failing(error), send)
            await discard_body(receive)
            return
        finally:
            booking.release()
        if body is None:
            await run(self._ids.new(), _gone, send)
            return
        name = _digest(caller.business.name.encode(), incoming.idempotency_key.encode())
        asked = _digest(operation.encode(), body)
        kept = None if name in self._live else await self._find(name)
        live = self._live.get(name)
        if (live or kept or _NOBODY).asked not in (asked, b""):
            said = f"This {HEADER} was used for another request."
            other = GatewayError("invalid_request", said, param=HEADER)
            await run(self._ids.new(), _failing(other), send)
        elif live is not None:
            await _while_there(receive, live.follow(send, instead=_again(incoming)))
        elif kept is not None and kept.answer is not None:
            await give(kept.answer, send, instead=_again(incoming))
        else:
            request = kept.request if kept else self._ids.new()
            live = self._live[name] = Recording(request, asked)
            task = asyncio.create_task(self._record(name, live, body, run), name="repeatable")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await _while_there(receive, live.follow(send))

    async def _record(self, name: bytes, live: Recording, body: bytes, run: Run) -> None:
        loop = asyncio.get_running_loop()
        try:
            await self._keep(name, Kept(live.request, live.asked))
            exchange = await run(live.request, whole_body(body), live.send)
            answer = live.answer() if exchange.row.status == "ok" else None
            if answer is None:
                del self._live[name]
                await asyncio.to_thread(self._store.drop, name)
            else:
                loop.call_later(AT_HAND_S, self._live.pop, name, None)
                await self._keep(name, Kept(live.request, live.asked, answer))
        except BaseException:
            self._live.pop(name, None)
            raise
        finally:
            live.close()

    async def _find(self, name: bytes) -> Kept | None:
        try:
            found = await asyncio.to_thread(self._store.find, name, self._clock.now())
            return None if found is None else _decode(found)
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("a kept answer cannot be read: %s", error)
            return None

    async def _keep(self, name: bytes, kept: Kept) -> None:
        try:
            await asyncio.to_thread(self._store.keep, name, _encode(kept), self._clock.now())
        except OSError as error:
            log.warning("an answer cannot be kept for who asks again: %s", error)


_NOBODY = Kept("", b"")


def _digest(first: bytes, second: bytes) -> bytes:
    return sha256(b"%d:%b%b" % (len(first), first, second)).digest()


def _again(incoming: Incoming) -> list[tuple[bytes, bytes]]:
    """Headers that say that the answer is not the first of its kind."""
    found = [(b"idempotent-replayed", b"true")]
    if incoming.request_id:
        found.append((b"x-client-request-id", incoming.request_id.encode()))
    return found


def _failing(error: GatewayError) -> Receive:
    """A caller whose body is not to be had."""

    async def receive() -> Message:
        raise error

    return receive


async def _gone() -> Message:
    return {"type": "http.disconnect"}


async def _while_there(receive: Receive, following: Awaitable[None]) -> None:
    """Follow an answer until its end or until the caller hangs up."""

    async def hang_up() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    follow, leave = asyncio.ensure_future(following), asyncio.create_task(hang_up())
    try:
        await asyncio.wait({follow, leave}, return_when=asyncio.FIRST_COMPLETED)
        if follow.done():
            await follow
    finally:
        follow.cancel()
        leave.cancel()
