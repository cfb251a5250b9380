"""POSTs to model servers over aiohttp's connections.

Connections, name resolution, TLS and the reading of answers are the library's. Its session's
own way is not taken: what it does for each request (cookies, redirects, proxies, a task that
writes the body) is not wanted here, and costs as much as all the rest of a request together.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakSet

import aiohttp
from aiohttp.client_reqrep import RequestInfo
from aiohttp.connector import Connection
from aiohttp.helpers import TimerNoop
from aiohttp.http_writer import StreamWriter
from yarl import URL

from .hangup import hang_up

READ_BUFFER = 256 * 1024
# Up to here a body is copied behind its head, to leave in one packet with it.
SMALL_BODY = 64 * 1024
NO_TIMER = TimerNoop()


@dataclass(frozen=True, slots=True)
class Target:
    """One URL: what to ask the connector for, and how each request to it begins."""

    request: aiohttp.ClientRequest
    info: RequestInfo
    head: str


class Client:
    """Lives on one event loop, with a session that it does not own."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._served: WeakSet[asyncio.Transport] = WeakSet()

    def target(self, url: URL, headers: Mapping[str, str]) -> Target:
        """A place to post to; ``headers`` go with every request."""
        request = aiohttp.ClientRequest("POST", url, loop=self._loop, session=self._session)
        start = f"POST {url.raw_path_qs} HTTP/1.1\r\nHost: {url.host_port_subcomponent}\r\n"
        return Target(request, request.request_info, start + _lines(headers))

    async def post(
        self,
        target: Target,
        headers: Mapping[str, str],
        body: bytes,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        """Send a body and wait for the answer's head; the caller must close the answer.

        Sent a second time where a kept connection turns out to be closed before anything
        came back, as servers do without a word. A new connection is not tried again: the
        engine had the request, and may have died of it. Raises aiohttp.ClientError, OSError,
        or ValueError for a header that HTTP does not allow.
        """
        length = f"Content-Length: {len(body)}\r\n\r\n"
        head = f"{target.head}{_lines(headers)}{length}".encode("latin-1")
        connector = self._session.connector
        assert connector is not None
        for last in (False, True):
            connection = await connector.connect(target.request, [], limits)
            kept = connection.transport in self._served
            try:
                return await self._exchange(connection, target, head, body)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if last or not kept:
                    raise
        raise AssertionError("unreachable")

    async def _exchange(
        self, connection: Connection, target: Target, head: bytes, body: bytes
    ) -> aiohttp.ClientResponse:
        """One request over a connection, which is closed if it comes to no answer."""
        protocol, transport = connection.protocol, connection.transport
        if protocol is None or transport is None:
            connection.close()
            raise aiohttp.ServerDisconnectedError
        self._served.add(transport)
        protocol.set_response_params(timer=NO_TIMER, read_until_eof=True, read_bufsize=READ_BUFFER)
        response = aiohttp.ClientResponse(
            "POST",
            target.request.url,
            writer=None,
            continue100=None,
            timer=NO_TIMER,
            request_info=target.info,
            traces=[],
            loop=self._loop,
            session=self._session,
            stream_writer=StreamWriter(protocol, self._loop),
        )
        try:
            if len(body) <= SMALL_BODY:
                transport.write(head + body)
            else:
                transport.write(head)
                transport.write(body)
            return await response.start(connection)
        except asyncio.CancelledError:
            await hang_up(transport, response.close)
            raise
        except BaseException:
            response.close()
            connection.close()
            raise


def _lines(headers: Mapping[str, str]) -> str:
    """Header lines. Raises ValueError where a value would be more than one."""
    lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if lines.count("\r") != len(headers) or lines.count("\n") != len(headers) or "\0" in lines:
        raise ValueError("a header's value has a line end")
    return lines
