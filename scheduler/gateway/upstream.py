"""Calls to model servers: one HTTP client, outgoing headers from a list, no surprises.

Nothing of the caller's headers goes through but what is named here. Redirects are not
followed, cookies not kept, nothing is retried, and each address is checked when a
connection is made, so that a name that later resolves elsewhere leads nowhere.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from aiohttp import hdrs
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from scheduler.core.events import Fault
from scheduler.core.fleet import ReplicaFacts
from scheduler.core.policy import Failover
from scheduler.engines import Engine

from .client import Client, Target
from .hangup import hang_up

log = logging.getLogger(__name__)

# Shorter than the servers' own (5 s), so that none closes a connection we just chose.
KEEPALIVE_S = 3.0
HEADERS: dict[str, str] = {
    hdrs.CONTENT_TYPE: "application/json",
    hdrs.ACCEPT: "*/*",
    hdrs.ACCEPT_ENCODING: "identity",
    hdrs.USER_AGENT: "fairlane",
}
REQUEST_ID = "X-Request-Id"
# For calls that are timed as a whole.
NO_LIMITS = aiohttp.ClientTimeout(total=None)
NO_ANSWER = (aiohttp.ClientError, OSError, ValueError, msgspec.MsgspecError)
_read_object = msgspec.json.Decoder(dict[str, object]).decode


class AttemptFailedError(Exception):
    """An attempt that ended before any content; ``reason`` is the contract's code."""

    def __init__(self, fault: Fault, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.reason = reason
        self.detail = detail


class CheckedResolver(AbstractResolver):
    """Resolves names, and gives back only addresses that replicas may live at."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._inner = aiohttp.ThreadedResolver()
        self._allowed = allowed

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        """Addresses of a host. Raises OSError when none of them is allowed."""
        found = await self._inner.resolve(host, port, family=family)  # type: ignore[arg-type]
        kept = [entry for entry in found if self._allowed(entry["host"])]
        if not kept:
            raise OSError(f"{host} resolves to no address that replicas may have")
        return kept

    async def close(self) -> None:
        """Let go of the inner resolver."""
        await self._inner.close()


class Upstream:
    """The client of the data path. ``allowed`` judges an IP address in text form."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._allowed = allowed
        self._client: Client | None = None
        self._session: aiohttp.ClientSession | None = None
        self._targets: dict[tuple[str, str], Target] = {}
        self._tokens: dict[str, tuple[float, str]] = {}

    async def start(self) -> None:
        """Open the client on the running loop."""
        connector = aiohttp.TCPConnector(
            # Slots bound what is sent; a second bound here could only misreport a full pool.
            limit=0,
            resolver=CheckedResolver(self._allowed),
            keepalive_timeout=KEEPALIVE_S,
            ttl_dns_cache=30,
        )
        self._session = aiohttp.ClientSession(
            connector=connector, cookie_jar=aiohttp.DummyCookieJar()
        )
        self._client = Client(self._session)

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()

    async def post(
        self,
        facts: ReplicaFacts,
        adapter: Engine,
        operation: str,
        body: bytes,
        *,
        attempt_id: str,
        trace: list[tuple[str, str]],
        limits: Failover,
    ) -> aiohttp.ClientResponse:
        """Send an attempt and wait for the response's head; the caller must close it.

        Raises AttemptFailedError where the replica could not be reached or broke off before
        it answered. Time limits after the connection are the caller's matter.
        """
        headers = {REQUEST_ID: attempt_id}
        headers.update(trace)
        if facts.token_file:
            headers[hdrs.AUTHORIZATION] = f"Bearer {self._token(facts.token_file)}"
        if not adapter.reuses_connections:
            headers[hdrs.CONNECTION] = "close"
        assert self._client is not None
        target = self._target(facts.url, adapter.path(operation))
        try:
            return await self._client.post(
                target, headers, body, _connect_within(limits.connect_ms)
            )
        except (aiohttp.ClientConnectorError, aiohttp.ServerTimeoutError, OSError) as error:
            raise AttemptFailedError(
                Fault.UNREACHABLE, "upstream_error", f"{facts.name} cannot be reached"
            ) from error
        except (aiohttp.ClientError, asyncio.IncompleteReadError, ValueError) as error:
            raise AttemptFailedError(
                Fault.ERROR, "upstream_error", f"{facts.name} broke off before answering"
            ) from error

    async def leave(self, response: aiohttp.ClientResponse) -> None:
        """Be done with an answer. A connection read to its end is kept; closing another tells
        the engine to stop, which it has seen when this returns, or will never see."""
        if response.content.at_eof():
            response.release()
            return
        connection = response.connection
        await hang_up(connection.transport if connection is not None else None, response.close)

    async def command(
        self, facts: ReplicaFacts, path: str, body: dict[str, object], *, within: float
    ) -> dict[str, object] | None:
        """POST JSON to a replica's own interface; its answer, a JSON object. None for anything
        else than a 200 within so many seconds."""
        status, answer = await self._ask(facts, path, body, within)
        try:
            return _read_object(answer) if status == 200 else None
        except msgspec.MsgspecError as error:
            log.info("%s answered no object to %s: %s", facts.name, path, error)
            return None

    async def status(
        self, facts: ReplicaFacts, path: str, body: dict[str, object], *, within: float
    ) -> int | None:
        """POST JSON of our own, and read the answer to its end; its status, None for no answer
        within so many seconds."""
        return (await self._ask(facts, path, body, within))[0]

    async def _ask(
        self, facts: ReplicaFacts, path: str, body: dict[str, object], within: float
    ) -> tuple[int | None, bytes]:
        assert self._client is not None
        headers = {REQUEST_ID: f"{facts.name}-{path}", hdrs.CONNECTION: "close"}
        try:
            if facts.token_file:
                headers[hdrs.AUTHORIZATION] = f"Bearer {self._token(facts.token_file)}"
            target = self._target(facts.url, path)
            async with asyncio.timeout(within):
                response = await self._client.post(
                    target, headers, msgspec.json.encode(body), NO_LIMITS
                )
                async with response:
                    return response.status, await response.read()
        except (*NO_ANSWER, AttemptFailedError) as error:
            log.info("%s gave no answer to %s: %s", facts.name, path, error)
            return None, b""

    def _target(self, base: str, path: str) -> Target:
        found = self._targets.get((base, path))
        if found is None:
            assert self._client is not None
            url = URL(base.rstrip("/") + path, encoded=True)
            host = url.raw_host or ""
            # The resolver sees names only: what the client takes for a literal address is
            # checked here.
            literal = ":" in host or host.replace(".", "").isdigit()
            if literal and not self._allowed(host):
                raise AttemptFailedError(
                    Fault.UNREACHABLE, "upstream_error", f"{urlsplit(base).hostname} is not allowed"
                )
            found = self._targets[base, path] = self._client.target(url, HEADERS)
        return found

    def _token(self, path: str) -> str:
        """The replica's own credential, read again when its file changes."""
        try:
            changed = Path(path).stat().st_mtime
            known = self._tokens.get(path)
            if known is None or known[0] != changed:
                known = (changed, Path(path).read_text(encoding="utf-8").strip())
                self._tokens[path] = known
        except OSError as error:
            raise AttemptFailedError(
                Fault.ERROR, "upstream_error", "the replica's token file cannot be read"
            ) from error
        return known[1]


@lru_cache(maxsize=8)
def _connect_within(milliseconds: int) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=milliseconds / 1000)
