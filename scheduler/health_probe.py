"""One health probe: a GET on the path where the engine says how it is."""

import asyncio
from collections.abc import Callable, Iterator
from enum import Enum

import httpx

from .core.fleet import ReplicaFacts
from .engines import engine

TIMEOUT_S = 1.5


class Verdict(Enum):
    """What a probe has found."""

    WELL = "well"
    UNWELL = "unwell"  # it says that it is not ready, or answers no HTTP
    GONE = "gone"  # nobody listens there
    SILENT = "silent"  # no answer in time


class Prober:
    """``allowed`` judges a URL and may block. Belongs to one event loop."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._allowed = allowed
        self._client = httpx.AsyncClient(timeout=TIMEOUT_S, follow_redirects=False, trust_env=False)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def probe(self, facts: ReplicaFacts) -> Verdict:
        """Ask once."""
        # Resolving a name may take a while, and must not hold up the loop.
        if not await asyncio.to_thread(self._allowed, facts.url):
            return Verdict.UNWELL
        url = facts.url.rstrip("/") + engine(facts.engine).health_path
        try:
            # The client's own limits are on each read; an answer may also never end.
            async with asyncio.timeout(TIMEOUT_S):
                response = await self._client.get(url)
        except (httpx.TimeoutException, TimeoutError):
            return Verdict.SILENT
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            refused = any(isinstance(cause, ConnectionRefusedError) for cause in _causes(error))
            return Verdict.GONE if refused else Verdict.UNWELL
        # A server that wants a key, or knows no such path, is up all the same.
        well = response.status_code < 500 and not response.is_redirect
        return Verdict.WELL if well else Verdict.UNWELL


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it came from: clients wrap what the system said."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            waiting += found.exceptions
        waiting += [cause for cause in (found.__cause__, found.__context__) if cause is not None]
