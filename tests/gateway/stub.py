"""A model server whose answers a test writes byte for byte.

It speaks HTTP/1.1 over a raw socket, so that answers may be cut, reset, stalled or wrong in
any way. It notes each request as it came, and when its peer hung up.
"""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

Json = dict[str, object]


@dataclass
class Seen:
    """One request as the stub got it. Header names are lower case."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes
    closed: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def json(self) -> dict[str, object]:
        """The body, decoded."""
        found: dict[str, object] = json.loads(self.body)
        return found

    def header(self, name: str) -> str | None:
        """The value of a header, or None."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def prompt(self) -> str:
        """The last message's text: tests tell their requests apart by it."""
        messages = self.json["messages"]
        assert isinstance(messages, list)
        return str(messages[-1]["content"])


class GoneError(Exception):
    """The peer hung up while it was being answered."""


class Wire:
    """The answering end of one connection."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.keep = True

    async def send(self, data: bytes) -> None:
        """Write bytes as they are. Raises GoneError."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            raise GoneError from None
        if self._writer.transport.is_closing():
            raise GoneError

    async def head(self, status: int = 200, *headers: tuple[str, str]) -> None:
        """The status line and these headers, none beside them."""
        lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers)]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def answer(
        self, body: bytes, status: int = 200, *headers: tuple[str, str], kind: str = ""
    ) -> None:
        """A whole answer with its length."""
        length = ("Content-Length", str(len(body)))
        kind = kind or "application/json"
        await self.head(status, ("Content-Type", kind), length, *headers)
        await self.send(body)

    async def json(self, value: Json, status: int = 200, *headers: tuple[str, str]) -> None:
        """A whole JSON answer."""
        await self.answer(json.dumps(value).encode(), status, *headers)

    async def begin_stream(self) -> None:
        """The head of a chunked event stream."""
        kind = ("Content-Type", "text/event-stream")
        await self.head(200, kind, ("Transfer-Encoding", "chunked"))

    async def chunk(self, data: bytes) -> None:
        """One chunk of a chunked body."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """The last chunk."""
        await self.send(b"0\r\n\r\n")

    async def stream(self, *events: bytes) -> None:
        """A whole stream of these events."""
        await self.begin_stream()
        for event in events:
            await self.chunk(event)
        await self.end_stream()

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self.keep = False
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def hang_up(self) -> None:
        """Close the connection, answered or not."""
        self.keep = False
        self._writer.close()


Answer = Callable[[Seen, Wire], Awaitable[None]]


class Stub:
    """Requests that came, and how to answer the next. Health checks are answered by ``health``
    and not noted; ``answer`` may be changed at any time."""

    def __init__(self, port: int, answer: Answer) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.answer = answer
        self.health: Answer = healthy
        self.seen: list[Seen] = []
        self.connections = 0
        self.most = 0
        self._open = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, request after request."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        wire, ahead = Wire(writer), b""
        try:
            while wire.keep:
                seen, ahead = await _read_request(reader, ahead)
                if seen is None:
                    break
                if seen.method == "GET":
                    await self.health(seen, wire)
                    continue
                if not self._known(writer):
                    self.connections += 1
                ahead = await self._answer(seen, wire, reader, ahead)
        except (GoneError, asyncio.CancelledError):
            return
        finally:
            writer.close()

    def _known(self, writer: asyncio.StreamWriter) -> bool:
        known = getattr(writer, "_known", False)
        writer._known = True  # type: ignore[attr-defined]
        return known

    async def _answer(
        self, seen: Seen, wire: Wire, reader: asyncio.StreamReader, ahead: bytes
    ) -> bytes:
        """Answer, and watch meanwhile for the peer's hang-up. Returns bytes read ahead."""
        self.seen.append(seen)
        self._open += 1
        self.most = max(self.most, self._open)
        watch = asyncio.create_task(_watch(reader, seen))
        answering = asyncio.create_task(self._one(seen, wire))
        try:
            await asyncio.wait((watch, answering), return_when=asyncio.FIRST_COMPLETED)
            if seen.closed.is_set():
                answering.cancel()
            with contextlib.suppress(asyncio.CancelledError, GoneError):
                await answering
            return ahead + (await watch if wire.keep else b"")
        finally:
            answering.cancel()
            watch.cancel()
            self._open -= 1
            seen.done.set()

    async def _one(self, seen: Seen, wire: Wire) -> None:
        await self.answer(seen, wire)

    async def close(self) -> None:
        """End every connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _watch(reader: asyncio.StreamReader, seen: Seen) -> bytes:
    """Wait for the next request's bytes; none means that the peer has gone."""
    try:
        data = await reader.read(65536)
    except ConnectionError:
        data = b""
    if not data:
        seen.closed.set()
    return data


async def _read_request(reader: asyncio.StreamReader, ahead: bytes) -> tuple[Seen | None, bytes]:
    """The next request on a connection, and bytes that came after it."""
    data = ahead
    try:
        while b"\r\n\r\n" not in data:
            more = await reader.read(65536)
            if not more:
                return None, b""
            data += more
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = [line.split(":", 1) for line in lines]
        headers = [(name.lower(), value.strip()) for name, value in pairs]
        length = int(dict(headers).get("content-length", "0"))
        parts, size = [data], len(data)
        while size < length:
            more = await reader.read(1 << 20)
            if not more:
                return None, b""
            parts.append(more)
            size += len(more)
    except ConnectionError:
        return None, b""
    whole = b"".join(parts)
    return Seen(method, path, headers, whole[:length]), whole[length:]


async def healthy(seen: Seen, wire: Wire) -> None:
    """All is well."""
    await wire.json({"status": "ok"})


def event(value: Json) -> bytes:
    """A value as a server-sent event."""
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def delta(text: str | None, *, finish: str | None = None, model: str = "chat") -> bytes:
    """One chunk of a streamed chat answer."""
    content = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": content, "finish_reason": finish}
    head: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
    return event({**head, "model": model, "choices": [choice]})


def usage(prompt: int = 7, completion: int = 3, *, model: str = "chat", cached: int = 0) -> Json:
    """A usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def usage_event(prompt: int = 7, completion: int = 3, *, model: str = "chat") -> bytes:
    """The chunk that holds usage alone."""
    head: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1}
    return event({**head, "model": model, "choices": [], "usage": usage(prompt, completion)})


def chat_answer(text: str = "hello", *, model: str = "chat") -> Json:
    """A plain chat answer."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(),
    }


async def polite(seen: Seen, wire: Wire) -> None:
    """A short answer in the form that was asked for, under the name that was asked for."""
    asked = seen.json
    model = str(asked.get("model"))
    if not asked.get("stream"):
        await wire.json(chat_answer(model=model))
        return
    options = asked.get("stream_options")
    events = [delta("hel", model=model), delta("lo", model=model)]
    events.append(delta(None, finish="stop", model=model))
    if isinstance(options, dict) and options.get("include_usage"):
        events.append(usage_event(model=model))
    await wire.stream(*events, DONE)


@dataclass
class Held:
    """Answers that go on when the test says so: each request sends one delta and then one
    more for each ``let`` until it is told to end. Keyed by the prompt of the request."""

    order: list[str] = field(default_factory=list)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)

    def gate(self, prompt: str) -> asyncio.Event:
        """The event that lets the request with this prompt end."""
        return self.gates.setdefault(prompt, asyncio.Event())

    def finish(self, *prompts: str) -> None:
        """Let these requests end."""
        for prompt in prompts:
            self.gate(prompt).set()

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        """Answer one request: a first delta at once, the rest when allowed."""
        prompt = seen.prompt
        self.order.append(prompt)
        if not seen.json.get("stream"):
            await self.gate(prompt).wait()
            await wire.json(chat_answer(prompt))
            return
        await wire.begin_stream()
        await wire.chunk(delta(f"<{prompt}"))
        await self.gate(prompt).wait()
        for piece in (delta(">"), delta(None, finish="stop"), usage_event(), DONE):
            await wire.chunk(piece)
        await wire.end_stream()


@contextlib.asynccontextmanager
async def stub(answer: Answer = polite, *, port: int = 0) -> AsyncIterator[Stub]:
    """A stub that listens until the block ends."""
    found: list[Stub] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await found[0].serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", port, limit=1 << 20)
    found.append(Stub(server.sockets[0].getsockname()[1], answer))
    try:
        yield found[0]
    finally:
        server.close()
        await found[0].close()
        await server.wait_closed()
