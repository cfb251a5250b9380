"""A steady load of calls, and what their callers were told."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp

from .harness import chat_body
from .raw import CHAT


@dataclass
class Told:
    """An answer that its caller has read to the end: the request's id, and when (ns)."""

    request: str
    status: int
    at: int


@dataclass
class Load:
    """Calls at a steady pace, whether or not earlier ones are answered; every fourth streamed."""

    url: str
    key: str
    per_s: float
    told: list[Told] = field(default_factory=list)
    sent: int = 0
    broken: int = 0
    streaming: int = 0
    ended: int = 0
    session: aiohttp.ClientSession | None = None

    @property
    def refused(self) -> int:
        """Answers that were none."""
        return sum(one.status != 200 for one in self.told)

    def ids(self, *, before: int | None = None) -> set[str]:
        """The requests answered, all or those before a moment (ns)."""
        return {told.request for told in self.told if before is None or told.at < before}

    async def run(self) -> None:
        """Call until cancelled; then wait for what is under way."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        calls: set[asyncio.Task[None]] = set()
        try:
            while True:
                self.sent += 1
                call = asyncio.create_task(self._call(streamed=self.sent % 4 == 0))
                calls.add(call)
                call.add_done_callback(calls.discard)
                await asyncio.sleep(began + self.sent / self.per_s - loop.time())
        except asyncio.CancelledError:
            await asyncio.gather(*calls)

    async def stream(self, prompt: str) -> None:
        """One more stream, to its end; ``ended`` counts those that were whole."""
        body, headers = chat_body(prompt, stream=True), {"authorization": f"Bearer {self.key}"}
        assert self.session is not None
        async with self.session.post(self.url + CHAT, json=body, headers=headers) as answer:
            self.streaming += 1
            text = await answer.read()
            self.ended += text.endswith(b"data: [DONE]\n\n")
            self._note(answer)

    async def _call(self, *, streamed: bool) -> None:
        body, headers = chat_body(stream=streamed), {"authorization": f"Bearer {self.key}"}
        assert self.session is not None
        try:
            async with self.session.post(self.url + CHAT, json=body, headers=headers) as answer:
                await answer.read()
                self._note(answer)
        except (aiohttp.ClientError, OSError):
            self.broken += 1

    def _note(self, answer: aiohttp.ClientResponse) -> None:
        self.told.append(Told(answer.headers["x-request-id"], answer.status, time.time_ns()))


@contextlib.asynccontextmanager
async def loaded(url: str, key: str, per_s: float) -> AsyncIterator[Load]:
    """Load a gateway until the block ends, and what was under way has ended too."""
    load = Load(url, key, per_s)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(30)) as session:
        load.session = session
        running = asyncio.create_task(load.run())
        try:
            yield load
        finally:
            running.cancel()
            await running
