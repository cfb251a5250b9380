"""Readings of replicas' pages of metrics, and the means of the last ones."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from scheduler.engines import Names, engine
from scheduler.readings import Reading, Window, merged, read

from .fetching import Fetcher, NoAnswerError

TIMEOUT_S = 2.0

# Number, means, and why one of the pages could not be read.
Tell = Callable[[int, Reading, str], None]


@dataclass(frozen=True, slots=True)
class Watched:
    """A replica's pages, the most telling first, and what they said lately."""

    urls: tuple[str, ...]
    engine: str
    window: Window = field(default_factory=Window)


class Paging:
    """``tell`` hears of every reading, ``over`` that it was made, and ``fault`` what this machine
    could not do. Lives on one event loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        tell: Tell,
        over: Callable[[int], None],
        fault: Callable[[str], None],
    ) -> None:
        self.window_s = 0.0
        self._fetcher = fetcher
        self._tell, self._over, self._fault = tell, over, fault
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._open: set[asyncio.Task[None]] = set()

    def begin(self, number: int, watched: Watched) -> None:
        """Read a replica's pages."""
        task = self._tasks[number] = asyncio.create_task(self._measure(number, watched))
        self._open.add(task)
        task.add_done_callback(partial(self._measured, number))

    def stop(self, number: int) -> None:
        """Read them no more."""
        task = self._tasks.pop(number, None)
        if task is not None:
            task.cancel()

    async def close(self) -> None:
        """Read nothing any more."""
        for number in list(self._tasks):
            self.stop(number)
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _measure(self, number: int, watched: Watched) -> None:
        reading, problem = await self._read(watched)
        now = asyncio.get_running_loop().time()
        if reading is not None:
            watched.window.add(reading, now)
        self._tell(number, watched.window.mean(now, self.window_s), problem)

    def _measured(self, number: int, task: asyncio.Task[None]) -> None:
        self._open.discard(task)
        if task.cancelled():
            return
        if failure := task.exception():
            # Whatever one page held, the next must be read all the same.
            self._fault(f"a page of metrics could not be read: {failure!r}")
        if self._tasks.get(number) is task:
            del self._tasks[number]
            self._over(number)

    async def _read(self, watched: Watched) -> tuple[Reading | None, str]:
        names = engine(watched.engine).metrics
        found: Reading | None = None
        problems = []
        for result in await asyncio.gather(*(self._page(url, names) for url in watched.urls)):
            if isinstance(result, str):
                problems.append(result)
            else:
                found = result if found is None else merged(found, result)
        return found, "; ".join(problems)

    async def _page(self, url: str, names: Names) -> Reading | str:
        """What a page says, or what is wrong with it."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status, body = await self._fetcher.get(url)
        except TimeoutError:
            return f"{url} does not answer in time"
        except NoAnswerError as error:
            return f"{url} cannot be read: {error}"
        if status != 200:
            return f"{url} answered {status}"
        try:
            return read(body.decode("utf-8", "replace"), names)
        except ValueError as error:
            return f"{url} is no page of metrics: {error}"
