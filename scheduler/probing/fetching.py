"""GETs to model servers: over connections that are kept for the next one, to addresses that
replicas may have, and with a word on what it means that there was no answer."""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from .answer import Answer, BadAnswerError
from .names import FOLLOW_S, Address, Names

# Shorter than the servers' own (5 s), so that none closes a connection we just chose.
KEEPALIVE_S = 3.0
# Of several addresses each but the last gets so long to take a connection.
CONNECT_S = 0.5
HEADERS = "Accept: */*\r\nAccept-Encoding: identity\r\nUser-Agent: fairlane\r\n"
# What this machine is short of says nothing about another one.
SHORTAGES = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.EADDRNOTAVAIL}
)
PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]


class NoAnswerError(Exception):
    """There was no answer that could be read; ``refused`` where nobody listens."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class ShortageError(Exception):
    """This machine could not ask."""


class _DroppedError(Exception):
    """The connection ended before a byte of an answer."""


@dataclass(frozen=True, slots=True)
class Target:
    """One URL: scheme, host and port to connect to, and the bytes that ask."""

    origin: Origin
    request: bytes


class Connection(asyncio.Protocol):
    """One connection, and one question at a time. ``made`` is when, in the loop's time, and
    ``rests`` since when it waits for the next one."""

    def __init__(self, now: float) -> None:
        self.made = self.rests = now
        self._transport: asyncio.Transport | None = None
        self._asked: tuple[Answer, asyncio.Future[Answer]] | None = None

    @property
    def usable(self) -> bool:
        """Whether both ends are open."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes) -> Answer:
        """Send a question and wait for its answer. Raises BadAnswerError and _DroppedError."""
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        assert self._transport is not None
        self._asked = Answer(), waiting
        self._transport.write(request)
        try:
            return await waiting
        finally:
            self._asked = None
            if waiting.cancelled() or waiting.exception() is not None:
                self.close()

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self._asked is None or self._asked[1].done():
            self.close()  # nobody asked
            return
        answer, waiting = self._asked
        try:
            if answer.feed(data):
                waiting.set_result(answer)
        except BadAnswerError as error:
            waiting.set_exception(error)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self._asked is None or self._asked[1].done():
            return
        answer, waiting = self._asked
        if exc is None and answer.end():
            waiting.set_result(answer)
        elif answer.begun:
            waiting.set_exception(BadAnswerError("it broke off in its answer"))
        else:
            waiting.set_exception(_DroppedError("it hung up without an answer"))


class Fetcher:
    """Lives on one event loop. ``allowed`` judges an IP address in text form."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._names = Names(allowed)
        self._targets: dict[str, Target] = {}
        self._resting: dict[Origin, list[Connection]] = {}
        self._loop = asyncio.get_running_loop()

    async def get(self, url: str) -> tuple[int, bytes]:
        """The status and body of an answer, redirects not followed. Raises NoAnswerError, also
        for an address that no replica may have, and ShortageError."""
        try:
            answer = await self._get(self._targets.get(url) or self._target(url))
        except (BadAnswerError, _DroppedError, OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise ShortageError(str(error)) from error
            refused = isinstance(error, ConnectionRefusedError)
            raise NoAnswerError(str(error) or type(error).__name__, refused=refused) from error
        return answer.status, bytes(answer.body)

    def forget(self, url: str) -> None:
        """It will not be asked again."""
        target = self._targets.pop(url, None)
        if target is not None:
            for connection in self._resting.pop(target.origin, ()):
                connection.close()

    def sweep(self) -> None:
        """Close what has rested too long. To be called now and then."""
        now = self._loop.time()
        for origin, resting in list(self._resting.items()):
            kept = [each for each in resting if self._may_ask(each, now)]
            for each in resting:
                if each not in kept:
                    each.close()
            if kept:
                self._resting[origin] = kept
            else:
                del self._resting[origin]

    async def close(self) -> None:
        """Close every connection that rests."""
        for resting in self._resting.values():
            for connection in resting:
                connection.close()
        await self._names.close()

    async def _get(self, target: Target) -> Answer:
        """Asked a second time where a kept connection turns out to be closed."""
        connection = self._rested(target.origin)
        if connection is not None:
            with contextlib.suppress(_DroppedError, ConnectionError):
                return await self._ask(connection, target)
        return await self._ask(await self._connect(target.origin), target)

    async def _ask(self, connection: Connection, target: Target) -> Answer:
        answer = await connection.ask(target.request)
        if answer.keep:
            connection.rests = self._loop.time()
            self._resting.setdefault(target.origin, []).append(connection)
        else:
            connection.close()
        return answer

    def _rested(self, origin: Origin) -> Connection | None:
        resting, now = self._resting.get(origin), self._loop.time()
        while resting:
            connection = resting.pop()
            if self._may_ask(connection, now):
                return connection
            connection.close()
        return None

    @staticmethod
    def _may_ask(connection: Connection, now: float) -> bool:
        """A connection that is old leads where the name led when it was made: let it go, in time
        for one that moves."""
        young = now - connection.made < FOLLOW_S
        return connection.usable and young and now - connection.rests < KEEPALIVE_S

    def _target(self, url: str) -> Target:
        """Raises ValueError for what is no address."""
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or PORTS.get(parts.scheme)
        if not host or not port or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(f"{url} is no address of a server")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\n{HEADERS}\r\n".encode("ascii")
        found = self._targets[url] = Target((parts.scheme, host, port), request)
        return found

    async def _connect(self, origin: Origin) -> Connection:
        scheme, host, port = origin
        *others, last = await self._names.addresses(host, port)
        name = host if scheme == "https" else None
        for address in others:
            # The last one tells what is wrong, if they all fail.
            with contextlib.suppress(ConnectionError, TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    return await self._reach(address, name)
        return await self._reach(last, name)

    async def _reach(self, address: Address, name: str | None) -> Connection:
        """A connection to an address, encrypted where its server has a ``name`` to show."""
        line = socket.socket(address[0], socket.SOCK_STREAM)
        try:
            line.setblocking(False)
            await self._loop.sock_connect(line, address[1])
            _, connection = await self._loop.create_connection(
                lambda: Connection(self._loop.time()),
                sock=line,
                ssl=None if name is None else _tls(),
                server_hostname=name,
            )
        except BaseException:
            line.close()
            raise
        return connection


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()
