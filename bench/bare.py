"""What granian and aiohttp cost by themselves: a proxy that passes everything through.

It knows no key, counts nothing and reads nothing; its speed is the measure of ours.
"""

import argparse
import os
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from granian import Granian
from granian.constants import Interfaces

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# The environment variable that names the upstream to the worker.
UPSTREAM = "BENCH_UPSTREAM"
PASSED = (b"content-type", b"authorization")
READ_BUFFER = 256 * 1024


class Proxy:
    """An ASGI application before one upstream."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request, or the lifespan."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["method"] == "GET":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"ok"})
        else:
            await self._pass(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        self._session = aiohttp.ClientSession(
            self._upstream,
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER,
        )
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._session.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _pass(self, scope: Message, receive: Receive, send: Send) -> None:
        assert self._session is not None
        message = await receive()
        body = message["body"]
        while message.get("more_body"):
            message = await receive()
            body += message["body"]
        headers = {
            name.decode(): value.decode() for name, value in scope["headers"] if name in PASSED
        }
        async with self._session.post(scope["path"], data=bytes(body), headers=headers) as response:
            kind = (b"content-type", response.headers["Content-Type"].encode())
            length = response.headers.get("Content-Length")
            if length is not None:
                answer = await response.read()
                sized = [kind, (b"content-length", length.encode())]
                await send({"type": "http.response.start", "status": 200, "headers": sized})
                await send({"type": "http.response.body", "body": answer})
                return
            await send({"type": "http.response.start", "status": 200, "headers": [kind]})
            while chunk := await response.content.readany():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


def make() -> Proxy:
    """What granian's worker serves."""
    return Proxy(os.environ[UPSTREAM])


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    Granian(
        "bench.bare:make",
        factory=True,
        address="127.0.0.1",
        port=parser.parse_args().port,
        interface=Interfaces.ASGI,
        workers=1,
    ).serve()


if __name__ == "__main__":
    main()
