"""An HTTP client that can stop anywhere: for hang-ups, half a body, and bytes as they are."""

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

CHAT = "/v1/chat/completions"


@dataclass
class Answer:
    """A response read to its end. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        """The error object of an OpenAI-shaped refusal."""
        found: dict[str, object] = json.loads(self.body)["error"]
        assert found.keys() == {"message", "type", "param", "code"}, found
        return found


class RawClient:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def begin(self, key: str, *headers: str, path: str = CHAT, method: str = "POST") -> None:
        """The head of a request, with the key and these header lines."""
        lines = [f"{method} {path} HTTP/1.1", "Host: gateway", *headers]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def post(
        self, key: str, body: bytes | dict[str, object], *headers: str, path: str = CHAT
    ) -> None:
        """A whole request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await self.begin(key, f"Content-Length: {len(data)}", *headers, path=path)
        await self.send(data)

    async def answer(self) -> Answer:
        """Read one response."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join([chunk async for chunk in self.chunks()])
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(first.split(" ")[1]), headers, body)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The chunks of a chunked body."""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readexactly(2)

    async def until(self, text: bytes) -> bytes:
        """Read up to and with ``text``."""
        return await self.reader.readuntil(text)

    def hang_up(self) -> None:
        """Close the connection with a FIN."""
        self.writer.close()

    def reset(self) -> None:
        """Close the connection with a reset, as a killed process does that had data unread."""
        sock: socket.socket = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def raw(url: str) -> AsyncIterator[RawClient]:
    """A connection to the gateway at ``url``, closed with the block."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=1 << 26)
    client = RawClient(reader, writer)
    try:
        yield client
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
