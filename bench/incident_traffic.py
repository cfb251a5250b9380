"""The scenario's callers for real: each request at its moment, of its size."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
import msgspec

from scheduler.simulation.scenario import SECOND
from scheduler.simulation.workload import Workload

# The emulator's answers may end by themselves below so many tokens.
NATURAL_MOST = 256
WORDS = ("plan", "river", "signal", "report", "market", "garden", "window", "letter")
WAIT = "X-Queue-Wait-Ms"
# What a stream that has begun is refused with, in-band.
ERROR = b'data: {"error"'
CALL_S = 900.0


@dataclass(slots=True)
class Outcome:
    """What came of one call: ``at`` is seconds of scenario time, ``wait_ms`` the time in the
    queue by the gateway's own word. Where it gives none (a refusal, a stream that waited so
    long that its headers went ahead) it is all the time until the end."""

    business: str
    at: float
    served: bool
    wait_ms: float
    reason: str


class Traffic:
    """Sends a workload to a gateway, and keeps what comes of each call."""

    def __init__(self, workload: Workload, url: str, keys: dict[str, str]) -> None:
        self.outcomes: list[Outcome] = []
        self.began = 0.0
        self._workload = workload
        self._url, self._keys = f"{url}/v1/chat/completions", keys
        self._sender: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def now(self) -> float:
        """Seconds of scenario time."""
        return time.monotonic() - self.began

    @asynccontextmanager
    async def flowing(self, begin: float, end: float, burst: int) -> AsyncIterator[None]:
        """Send what arrives between two moments (s) of the scenario, and ``burst`` calls at
        most of those that arrive at once. Calls still open at the end are broken off."""
        # Made beforehand: hundreds at one moment must not keep the others waiting.
        due = [(at, index, self._body(index)) for at, index in self._due(begin, end, burst)]
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=CALL_S)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self.began = time.monotonic() - begin
            self._sender = asyncio.create_task(self._send(session, due))
            try:
                yield
            finally:
                pending = [self._sender, *self._tasks]
                for task in pending:
                    task.cancel()
                await asyncio.gather(*pending, return_exceptions=True)

    async def settle(self, business: str, within_s: float) -> None:
        """Send no more, and wait until no call of this business is open. Raises TimeoutError."""
        assert self._sender is not None
        self._sender.cancel()
        async with asyncio.timeout(within_s):
            while mine := [task for task in self._tasks if task.get_name() == business]:
                await asyncio.wait(mine)

    def _due(self, begin: float, end: float, burst: int) -> Iterator[tuple[float, int]]:
        work = self._workload
        at_once: dict[int, int] = {}
        for index in range(len(work)):
            at, arrived = work.arrived[index] / SECOND, work.arrived[index]
            if begin <= at < end:
                at_once[arrived] = at_once.get(arrived, 0) + 1
                if at_once[arrived] <= burst:
                    yield at, index

    async def _send(
        self, session: aiohttp.ClientSession, due: list[tuple[float, int, bytes]]
    ) -> None:
        for at, index, body in due:
            if at > self.now:
                await asyncio.sleep(at - self.now)
            business = self._workload.businesses[self._workload.business[index]]
            task = asyncio.create_task(self._call(session, business, body), name=business)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _call(self, session: aiohttp.ClientSession, business: str, body: bytes) -> None:
        begun, at = time.monotonic(), self.now
        headers = {
            "Authorization": f"Bearer {self._keys[business]}",
            "Content-Type": "application/json",
        }
        served, reason, wait = False, "", None
        try:
            async with session.post(self._url, data=body, headers=headers) as answer:
                content = await answer.read()
                served = answer.status == HTTPStatus.OK and ERROR not in content
                reason = answer.headers.get("X-Fairlane-Reason", "") or str(answer.status)
                wait = answer.headers.get(WAIT)
        except aiohttp.ClientError as error:
            reason = type(error).__name__
        took_ms = 1e3 * (time.monotonic() - begun)
        waited = float(wait) if served and wait is not None else took_ms
        self.outcomes.append(Outcome(business, at, served, waited, reason))

    def _body(self, index: int) -> bytes:
        work = self._workload
        prompt, output = work.prompt[index], work.output[index]
        stream = work.scenario.arrivals[work.stream[index]]
        # Each prompt begins in another way, so that no card's prefix cache helps.
        words = [WORDS[(index >> (3 * place)) % 8] for place in range(6)]
        words += [WORDS[(index + place) % 8] for place in range(prompt - 6)]
        sizes = {"max_tokens": output}
        if output >= NATURAL_MOST:
            sizes = {"min_tokens": output, "max_tokens": stream.max_tokens}
        return msgspec.json.encode(
            {
                "model": work.models[work.model[index]],
                "messages": [{"role": "user", "content": " ".join(words)}],
                # Chat is read as it is written; checks and evaluations want the whole answer.
                "stream": work.lane[index] == 0 and stream.max_tokens > NATURAL_MOST,
                **sizes,
            }
        )
