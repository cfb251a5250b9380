"""What goes over the wire to a model server, byte for byte, and over which connection."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from yarl import URL

from scheduler.gateway.client import SMALL_BODY, Client

LIMITS = aiohttp.ClientTimeout(total=None, sock_connect=5)
FIXED = {"Content-Type": "application/json", "Accept": "*/*"}
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@dataclass
class Engine:
    """Answers each request; ``silent`` ends that many connections without a word instead."""

    port: int = 0
    silent: int = 0
    connections: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                body = await reader.readexactly(length)
                if self.silent:
                    self.silent -= 1
                    return
                self.heads.append(head)
                self.bodies.append(body)
                writer.write(ANSWER)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    found = Engine()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.port = server.sockets[0].getsockname()[1]
    async with server:
        yield found


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
        yield Client(session)


async def post(client: Client, engine: Engine, body: bytes, **headers: str) -> bytes:
    url = URL(f"http://127.0.0.1:{engine.port}/v1/x%20y?z=1", encoded=True)
    response = await client.post(client.target(url, FIXED), headers, body, LIMITS)
    async with response:
        assert response.status == 200
        return await response.read()


async def test_a_request_is_what_was_asked_for_and_nothing_else(
    client: Client, engine: Engine
) -> None:
    assert await post(client, engine, b'{"a":1}', traceparent="00-ab-cd-01") == b"{}"
    assert engine.heads == [
        b"POST /v1/x%%20y?z=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nAccept: */*\r\ntraceparent: 00-ab-cd-01\r\n"
        b"Content-Length: 7\r\n\r\n" % engine.port
    ]


@pytest.mark.parametrize("size", [0, 1, SMALL_BODY, SMALL_BODY + 1, 8 * 1024 * 1024])
async def test_bodies_of_any_size_arrive_whole(client: Client, engine: Engine, size: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    assert await post(client, engine, body) == b"{}"
    assert engine.bodies == [body]


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "a\nb", "a\rb", "a\0b", "名"])
async def test_a_header_cannot_become_two(client: Client, engine: Engine, value: str) -> None:
    with pytest.raises(ValueError, match=r"header|latin-1"):
        await post(client, engine, b"{}", name=value)
    assert not engine.connections


async def test_a_kept_connection_serves_again(client: Client, engine: Engine) -> None:
    for _ in range(3):
        await post(client, engine, b"{}")
    assert engine.connections == 1


async def test_a_kept_connection_that_closes_in_silence_is_no_failure(
    client: Client, engine: Engine
) -> None:
    await post(client, engine, b"{}")
    engine.silent = 1
    assert await post(client, engine, b"again") == b"{}"
    assert engine.bodies == [b"{}", b"again"]
    assert engine.connections == 2


async def test_a_new_connection_that_closes_in_silence_is_one(
    client: Client, engine: Engine
) -> None:
    engine.silent = 1
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await post(client, engine, b"{}")
    assert engine.connections == 1
    assert not engine.bodies
