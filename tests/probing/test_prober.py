"""The probing process: what is asked of it, what it tells, and that it leaves nothing behind."""

import asyncio
import ipaddress
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from scheduler.probing import prober as module
from scheduler.probing.messages import Figures, Found, Verdict
from scheduler.probing.prober import Prober
from tests.gateway.harness import EVERYWHERE
from tests.gateway.stub import Seen, Stub, Wire, stub

ROOT = Path(__file__).resolve().parents[2]
PAGE = b"vllm:num_requests_running 5.0\nvllm:num_requests_waiting 3.0\n"


def processes(parent: int | None = None) -> list[psutil.Process]:
    """Probing processes that this process, or another one, has started."""
    children = psutil.Process(parent).children()
    return [each for each in children if "scheduler.probing" in each.cmdline()]


def runs(process: psutil.Process) -> bool:
    """Where nobody collects it, it stays as a zombie."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class Told:
    """A prober that runs, and what it has told."""

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self.found: list[Found] = []
        self.figures: list[Figures] = []
        self._news = asyncio.Event()
        prober.on_found, prober.on_figures = self._found, self._figures

    def _found(self, found: Found) -> None:
        self.found.append(found)
        self._news.set()

    def _figures(self, figures: Figures) -> None:
        self.figures.append(figures)
        self._news.set()

    async def verdict(self, number: int, *, after: int = 0) -> Verdict:
        """The next verdict of a number, behind so many that were told before."""
        while True:
            for found in self.found[after:]:
                if found.number == number:
                    return found.verdict
            self._news.clear()
            await self._news.wait()

    async def reading(self, number: int) -> Figures:
        while True:
            for figures in self.figures:
                if figures.number == number:
                    return figures
            self._news.clear()
            await self._news.wait()


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    prober = Prober(EVERYWHERE)
    prober.start()
    yield Told(prober)
    await prober.close()
    assert not processes()


@pytest.fixture
async def server() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


async def test_what_is_ordered_before_and_after_its_start(server: Stub, told: Told) -> None:
    server.health = lambda seen, wire: wire.answer(PAGE if seen.path == "/metrics" else b"")
    told.prober.pace(3.0, 10.0)
    early = told.prober.probe(server.url + "/health")
    await told.prober.up()
    late = told.prober.probe(server.url + "/health")
    pages = told.prober.read((server.url + "/metrics",), "vllm")
    assert await told.verdict(early) is Verdict.WELL
    assert await told.verdict(late) is Verdict.WELL
    figures = await told.reading(pages)
    assert (figures.mean.running, figures.mean.queue, figures.problem) == (5.0, 3.0, "")


async def test_times_are_those_of_this_process(server: Stub, told: Told) -> None:
    loop = asyncio.get_running_loop()
    before = loop.time()
    number = told.prober.probe(server.url)
    await told.verdict(number)
    assert before <= told.found[0].asked <= loop.time()


async def test_one_that_is_hurried_is_told_of_at_once_though_nothing_changed(
    server: Stub, told: Told
) -> None:
    """That it is still well is told now and then; whoever hurries wants to know."""
    number = told.prober.probe(server.url)
    await told.verdict(number)
    for _ in range(3):
        before = len(told.found)
        told.prober.hurry(number)
        assert await told.verdict(number, after=before) is Verdict.WELL


async def test_one_that_was_dropped_is_asked_and_told_of_no_more(server: Stub, told: Told) -> None:
    asked: list[str] = []

    async def health(seen: Seen, wire: Wire) -> None:
        asked.append(seen.path)
        await wire.json({})

    server.health = health
    kept = told.prober.probe(server.url + "/kept")
    gone = told.prober.probe(server.url + "/gone")
    # Added and dropped within one turn of the loop: never asked.
    told.prober.drop(told.prober.probe(server.url + "/never"))
    await told.verdict(gone)
    told.prober.drop(gone)
    told.prober.hurry(kept)
    before, told_before = len(asked), len(told.found)
    await told.verdict(kept, after=told_before)
    for _ in range(3):
        told_by_now = len(told.found)
        told.prober.hurry(kept)
        await told.verdict(kept, after=told_by_now)
    # One question may have been on its way.
    assert asked[before:].count("/gone") <= 1
    assert "/never" not in asked
    assert gone not in {found.number for found in told.found[told_before:]}


async def test_it_connects_to_where_replicas_may_be_alone(server: Stub) -> None:
    prober = Prober([ipaddress.ip_network("10.0.0.0/8")])
    prober.start()
    told = Told(prober)
    number = prober.probe(server.url)
    assert await told.verdict(number) is Verdict.UNWELL
    assert "no address that replicas may have" in told.found[0].why
    await prober.close()


async def test_one_that_is_killed_is_followed_by_another_that_knows_all(
    server: Stub,
    told: Told,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    number = told.prober.probe(server.url)
    gone = told.prober.probe(server.url)
    await told.verdict(number)
    await told.verdict(gone)
    told.prober.drop(gone)
    (first,) = processes()
    before = len(told.found)
    first.send_signal(signal.SIGKILL)
    assert await told.verdict(number, after=before) is Verdict.WELL
    (second,) = processes()
    assert second.pid != first.pid
    assert gone not in {found.number for found in told.found[before:]}
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert errors == ["the probing process has ended (exit status -9): another one follows"]


async def test_a_fault_of_whoever_hears_a_verdict_costs_that_alone(
    server: Stub, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    take, failed = told.prober.on_found, asyncio.Event()

    def fail(found: Found) -> None:
        failed.set()
        told.prober.on_found = take
        raise ValueError("no")

    told.prober.on_found = fail
    number = told.prober.probe(server.url)
    await failed.wait()
    told.prober.hurry(number)
    assert await told.verdict(number) is Verdict.WELL
    assert "not taken in" in caplog.text
    assert len(processes()) == 1


async def test_closing_ends_it_whatever_it_does() -> None:
    """While it starts, while it waits for an answer, twice, or never started."""

    async def silent(seen: Seen, wire: Wire) -> None:
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    await Prober(EVERYWHERE).close()
    prober = Prober(EVERYWHERE)
    prober.start()
    await asyncio.sleep(0)
    await prober.close()
    assert not processes()
    async with stub() as server:
        server.health = silent
        prober = Prober(EVERYWHERE)
        prober.start()
        prober.probe(server.url)
        await asked.wait()
        await prober.close()
        await prober.close()
    assert not processes()


PARENT = """
import asyncio, sys
from scheduler.probing.prober import Prober

async def main():
    prober = Prober(())
    prober.start()
    await prober.up()
    print("up", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def test_it_ends_with_the_process_that_started_it() -> None:
    """However that ends: nothing is told to it then."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        (child,) = processes(parent.pid)
        os.kill(parent.pid, signal.SIGKILL)
        while runs(child):
            time.sleep(0.01)
