"""The gateways that are held against each other before the same cards, and a round of each.

They take turns. Each is started anew for its round, before cards that have forgotten the last
one; it is warm when every card has had a call, and none of those count.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from statistics import median
from typing import ClassVar, TypeVar

import aiohttp
import psutil

from .caller import call, chat_body, headers_of
from .machine import BenchError
from .process import Server
from .prompts import message_of
from .replay import Punctuality
from .report import Json
from .site import Cards, Loads

WARM_S = 60.0
CALM_S = 60.0
# So that what the warm-up calls left behind has been noticed.
SETTLE_S = 1.0
WARM_PROMPT, WARM_ANSWER = 500, 16
# A load that is later than this (P99) has the machine in its figures.
MOST_LATE_MS = 50.0
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Way:
    """A gateway: how it is started, and its key for each business."""

    name: str
    start: Callable[[], AbstractContextManager[tuple[Server, int]]]
    keys: dict[str, str]


@dataclass(frozen=True, slots=True)
class Effort:
    """What a round took: shares of their cores (1 is all of it) that the gateway and the load
    used, emulated cards included, and how punctual the load was."""

    gateway: float
    load: float
    punctuality: Punctuality

    HEAD: ClassVar = ("sent late ms", "loop late ms", "load core", "own core")

    @staticmethod
    def cells(efforts: "Sequence[Effort]") -> list[Json]:
        """The medians of several rounds, as a table has them below ``HEAD``."""
        return [
            median(each.punctuality.sent_p99_ms for each in efforts),
            median(each.punctuality.loop_p99_ms for each in efforts),
            f"{median(each.load for each in efforts):.0%}",
            f"{median(each.gateway for each in efforts):.0%}",
        ]

    @property
    def late(self) -> bool:
        """Whether the load was too late for the figures to be the gateway's."""
        return max(self.punctuality.sent_p99_ms, self.punctuality.loop_p99_ms) > MOST_LATE_MS

    def figures(self) -> dict[str, Json]:
        """The same of one round as JSON."""
        return {
            "load_sent_late_p99_ms": self.punctuality.sent_p99_ms,
            "load_loop_late_p99_ms": self.punctuality.loop_p99_ms,
            "load_core_share": self.load,
            "gateway_core_share": self.gateway,
        }


def warn_of_late(efforts: Sequence[Effort]) -> None:
    """Print a line if the machine was too busy in some of the rounds."""
    late = sum(each.late for each in efforts)
    if late:
        print(
            f"NOT TO BE TRUSTED: in {late} of {len(efforts)} rounds the load was over"
            f" {MOST_LATE_MS:.0f} ms late; repeat this on a quiet machine"
        )


# Plays the calls of a round at a URL, with a key for each business.
Drive = Callable[[str, dict[str, str]], Coroutine[None, None, tuple[list[_Made], Punctuality]]]


def interleaved(
    ways: Sequence[Way], rounds: int, each: Callable[[Way, int], None], *, section: str
) -> None:
    """Call ``each`` for every gateway in every round. Each round begins with another one, so that
    none always follows the same."""
    for number in range(rounds):
        turn = number % len(ways)
        for way in (*ways[turn:], *ways[:turn]):
            told = f"{section} round {number + 1} of {rounds}, {way.name}"
            sys.stderr.write(f"\rbench: {told:<60}")
            each(way, number)
    sys.stderr.write("\r" + " " * 70 + "\r")


def one_round(
    way: Way, cards: Cards, model: str, businesses: Sequence[str], drive: "Drive[_Made]"
) -> tuple[list[_Made], Loads, Effort]:
    """Start the gateway, warm it, and ``drive`` the load at it."""
    own = psutil.Process()
    with way.start() as (server, port):
        url = f"http://127.0.0.1:{port}"
        cards.forget()
        asyncio.run(_warm(way, url, cards, model, businesses))
        cards.calm(CALM_S)
        time.sleep(SETTLE_S)
        cards.forget()
        began, before = time.monotonic(), (server.cpu_s(), cards.cpu_s(), _cpu_s(own))
        made, punctuality = asyncio.run(drive(url, way.keys))
        took = time.monotonic() - began
        after = (server.cpu_s(), cards.cpu_s(), _cpu_s(own))
        cards.calm(CALM_S)
        loads = cards.loads()
    gateway, emulators, client = (b - a for a, b in zip(before, after, strict=True))
    return made, loads, Effort(gateway / took, (emulators + client) / took, punctuality)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def _warm(way: Way, url: str, cards: Cards, model: str, businesses: Sequence[str]) -> None:
    """Calls for all cards at once, again until every card has had one and each business is
    served."""
    deadline = time.monotonic() + WARM_S
    served: set[str] = set()
    async with aiohttp.ClientSession() as session:

        async def one(number: int) -> str:
            business = businesses[number % len(businesses)]
            message = {"role": "user", "content": message_of(f"warm/{number}", WARM_PROMPT)}
            body = chat_body(
                model, [message], answer_tokens=WARM_ANSWER, max_tokens=4 * WARM_ANSWER
            )
            headers = headers_of(way.keys.get(business, "none"))
            heard = await call(session, f"{url}/v1/chat/completions", body, headers)
            if heard.whole:
                served.add(business)
            return heard.reason

        numbers = count()
        while True:
            refusals = await asyncio.gather(*(one(next(numbers)) for _ in cards.urls))
            idle = [
                name for name, seen in (await asyncio.to_thread(cards.seen)).items() if not seen
            ]
            missing = set(businesses) - served
            if not idle and not missing:
                return
            if time.monotonic() > deadline:
                raise BenchError(
                    f"{way.name} leaves cards idle ({idle}) or businesses unserved ({missing}):"
                    f" {', '.join(filter(None, refusals))}"
                )
            await asyncio.sleep(0.05)
