"""Calls made each at its moment, whatever became of those before; and how punctual that was."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from scheduler.simulation.scenario import SECOND
from scheduler.simulation.workload import Workload

from .caller import Heard, call, chat_body, headers_of
from .prompts import message_of
from .report import percentile

BEAT_S = 0.01
# An answer that is one token long is its end alone, and has no first text.
LEAST_ANSWER = 2
CALL_S = 900.0


@dataclass(frozen=True, slots=True)
class Planned:
    """A call to come, ``at`` seconds from the start."""

    at: float
    lane: int
    business: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Made:
    """A call as planned and what was heard. It was sent ``late_s`` after its moment."""

    planned: Planned
    late_s: float
    heard: Heard


@dataclass(slots=True)
class Punctuality:
    """Whether the load kept up: how late calls were sent, and how late its loop came to what was
    due, looked at every 10 ms (s)."""

    sent: list[float] = field(default_factory=list)
    loop: list[float] = field(default_factory=list)

    @property
    def sent_p99_ms(self) -> float:
        """99 of 100 calls were sent no later."""
        return 1e3 * percentile(sorted(self.sent), 0.99)

    @property
    def loop_p99_ms(self) -> float:
        """99 of 100 looks came no later."""
        return 1e3 * percentile(sorted(self.loop), 0.99)


def plan(workload: Workload, *, speed: float = 1.0) -> list[Planned]:
    """A call for each request of a scenario's workload, ``speed`` times as fast: prompts and
    answers have its numbers of tokens, and no two prompts begin alike."""
    work = workload
    found = []
    for index in range(len(work)):
        name = f"{work.seed}/{index}"
        stream = work.scenario.arrivals[work.stream[index]]
        message = {"role": "user", "content": message_of(name, work.prompt[index])}
        body = chat_body(
            work.models[work.model[index]],
            [message],
            answer_tokens=max(LEAST_ANSWER, work.output[index]),
            max_tokens=max(LEAST_ANSWER, stream.max_tokens),
        )
        at = work.arrived[index] / SECOND / speed
        business = work.businesses[work.business[index]]
        found.append(Planned(at, work.lane[index], business, body))
    return found


async def replay(
    url: str, planned: Sequence[Planned], keys: dict[str, str]
) -> tuple[list[Made], Punctuality]:
    """Make the calls at a gateway, and hear every one to its end."""
    made: list[Made] = []
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        began = time.monotonic()

        async def one(each: Planned) -> None:
            late = time.monotonic() - began - each.at
            headers = headers_of(keys.get(each.business, "none"))
            heard = await call(session, f"{url}/v1/chat/completions", each.body, headers)
            made.append(Made(each, late, heard))

        async with beating() as punctuality, asyncio.TaskGroup() as group:
            for each in planned:
                wait = began + each.at - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                group.create_task(one(each))
    # A burst of low work can't be sent at one moment, and nobody waits for it.
    punctuality.sent = [each.late_s for each in made if each.planned.lane < 2]
    return made, punctuality


@asynccontextmanager
async def beating() -> AsyncIterator[Punctuality]:
    """Look at how late the loop comes to what is due, until the block ends."""
    punctuality = Punctuality()
    task = asyncio.create_task(_beat(punctuality))
    try:
        yield punctuality
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _beat(punctuality: Punctuality) -> None:
    while True:
        due = time.monotonic() + BEAT_S
        await asyncio.sleep(BEAT_S)
        punctuality.loop.append(time.monotonic() - due)
