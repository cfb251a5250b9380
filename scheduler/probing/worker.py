"""What runs in the probing process: orders come in, reports go out."""

import asyncio
import ipaddress
import math
from concurrent.futures import ThreadPoolExecutor

from scheduler.addresses import allows
from scheduler.readings import Reading

from .asking import Asking
from .fetching import Fetcher
from .messages import Figures, Found, Lines, Order, Report, Verdict, read_order
from .pacing import Pacer
from .paging import Paging, Watched

EVERY_S = 1.0
SWEEP_S = 5.0
# That a replica is still well is told so often; all else is told when it is found.
STILL_S = 5.0
# Verdicts are gathered for so long, so that the loop that hears them is woken seldom.
GATHER_S = 0.05
# Whoever does not read so much stands still, and gets what is new when it goes on.
MOST_UNREAD = 1024 * 1024
# Names whose servers are slow must not keep others from being resolved.
LOOK_UPS = 32


class Worker:
    """Lives on one event loop, over one socket."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(LOOK_UPS))
        self.lines = Lines(self._obey)
        self._allowed = allows(())
        self._fetcher = Fetcher(self._may_be)
        self._urls: dict[int, str] = {}
        # When it was last told of each that it is well, if nothing else was told since.
        self._well: dict[int, float] = {}
        self._watched: dict[int, Watched] = {}
        self._turns = Pacer(lambda number: self._asking.begin(number, self._urls[number]), EVERY_S)
        self._asking = Asking(self._fetcher, self._found, self._turns.over, self._fault)
        self._rounds = Pacer(
            lambda number: self._paging.begin(number, self._watched[number]), EVERY_S
        )
        self._paging = Paging(self._fetcher, self._figures, self._rounds.over, self._fault)
        self._report: Report | None = None

    async def run(self) -> None:
        """Probe and read until the other end has let go."""
        self.lines.send(Report())
        sweep = self._loop.create_task(self._sweep())
        await self.lines.closed.wait()
        sweep.cancel()
        self._turns.close()
        self._rounds.close()
        await self._asking.close()
        await self._paging.close()
        await self._fetcher.close()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            self._fetcher.sweep()

    def _obey(self, line: bytes) -> None:
        order: Order = read_order(line)
        if order.networks is not None:
            self._allowed = allows([ipaddress.ip_network(each) for each in order.networks])
        if order.metrics_every_s is not None and order.metrics_window_s is not None:
            self._rounds.every_s = order.metrics_every_s
            self._paging.window_s = order.metrics_window_s
        self._urls.update(order.probe)
        for number in order.probe:
            self._turns.add(number)
        for number, (urls, engine) in order.read.items():
            self._watched[number] = Watched(urls, engine)
            self._rounds.add(number)
        for number in order.hurry:
            if number in self._urls:
                self._well.pop(number, None)
                self._asking.stop(number)
                self._turns.add(number)
        for number in order.drop:
            self._drop(number)

    def _may_be(self, address: str) -> bool:
        return self._allowed(address)

    def _drop(self, number: int) -> None:
        self._turns.drop(number)
        self._rounds.drop(number)
        self._asking.stop(number)
        self._paging.stop(number)
        self._well.pop(number, None)
        watched = self._watched.pop(number, None)
        for url in (self._urls.pop(number, None), *(watched.urls if watched is not None else ())):
            if url is not None:
                self._fetcher.forget(url)

    def _found(self, number: int, verdict: Verdict, asked: float, why: str) -> None:
        if verdict is not Verdict.WELL:
            self._well.pop(number, None)
        elif asked < self._well.get(number, -math.inf) + STILL_S:
            return
        else:
            self._well[number] = asked
        self._due().found.append(Found(number, verdict, asked, why))

    def _figures(self, number: int, mean: Reading, problem: str) -> None:
        self._due().figures.append(Figures(number, mean, problem))

    def _fault(self, words: str) -> None:
        self._due().faults.append(words)

    def _due(self) -> Report:
        """The report that goes out next."""
        if self._report is None:
            self._report = Report()
            self._loop.call_later(GATHER_S, self._send)
        return self._report

    def _send(self) -> None:
        report, self._report = self._report, None
        if report is not None and self.lines.unread < MOST_UNREAD:
            self.lines.send(report)
