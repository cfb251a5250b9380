"""Gateways that are killed or stopped, and a Postgres that goes away: who was answered is on
record, and nobody twice."""

import asyncio
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx
import psutil
import psycopg
import pytest

from console.embedded_postgres import EmbeddedPostgres

from .harness import chat_body
from .live import Installation, Process, furnish, serving
from .load import Load, loaded
from .raw import CHAT
from .stub import DONE, Seen, Stub, Wire, delta, polite, stub, usage_event

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
KILLS = 10 if LONG else 3
AWAY_S = 30.0 if LONG else 3.0
PER_S = 200.0
# What a crash may cost.
LOST_NS = 100_000_000
PATIENCE_S = 60.0
T = TypeVar("T")

pytestmark = pytest.mark.timeout(600 if LONG else 180)


async def until(ask: Callable[[], Awaitable[T]], enough: Callable[[T], object]) -> None:
    """Ask again and again until it is enough."""
    deadline = time.monotonic() + PATIENCE_S
    while not enough(found := await ask()):
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


@dataclass
class Site:
    """An installation on a Postgres of its own, which a test may stop. It is started from the
    main thread, for it ends with the thread that started it."""

    installation: Installation
    postgres: EmbeddedPostgres

    @property
    def key(self) -> str:
        """A key."""
        return self.installation.keys["owner"]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Process]:
        """The gateway as a process that has found its replica."""
        headers = {"authorization": f"Bearer {self.installation.keys['urgent']}"}
        with serving(self.installation, role="gateway") as process:
            async with httpx.AsyncClient(base_url=process.url, trust_env=False) as client:
                await until(
                    lambda: client.post(CHAT, json=chat_body(), headers=headers),
                    lambda answer: answer.status_code == 200,
                )
            yield process

    def rows(self) -> dict[str, int]:
        """What is on record of the key's calls: ids, and when each was finished (ns)."""
        query = (
            "SELECT id::text, extract(epoch FROM finished_at) FROM metering_usagerecord"
            " WHERE business = 'owner'"
        )
        with psycopg.connect(self.installation.database) as connection:
            rows = connection.execute(query).fetchall()
        assert len(rows) == len({row[0] for row in rows})
        return {row[0]: int(row[1] * 1_000_000_000) for row in rows}

    def gpu_seconds(self) -> tuple[float, float]:
        """What all requests had of the replicas' time, and how long these were busy."""
        with psycopg.connect(self.installation.database) as connection:
            row = connection.execute(
                "SELECT (SELECT sum(gpu_seconds) FROM metering_usagerecord),"
                " (SELECT sum(busy_seconds)::float8 FROM metering_gpuhour)"
            ).fetchone()
        assert row is not None
        return row[0], row[1]

    @property
    def journal(self) -> list[Path]:
        """The journal's files, oldest first."""
        folder = Path(self.installation.environment["FAIRLANE_DATA_DIR"]) / "journal"
        return sorted(folder.rglob("*.usage"))


@pytest.fixture(scope="module")
def furnished() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="fairlane-crash-") as name:
        folder = Path(name)
        # As root the server runs as another user, who must get in.
        folder.chmod(0o711)
        postgres = EmbeddedPostgres(folder / "postgres", durable=False)
        url = postgres.start()
        try:
            yield Site(furnish(url, folder), postgres)
        finally:
            postgres.stop()


@pytest.fixture
def site(furnished: Site) -> Site:
    furnished.postgres.start()
    with psycopg.connect(furnished.installation.database, autocommit=True) as connection:
        connection.execute("TRUNCATE metering_usagerecord, metering_gpuhour")
    return furnished


@pytest.fixture
async def engine(furnished: Site) -> AsyncIterator[Stub]:
    async with stub(port=furnished.installation.engine_port) as running:
        yield running


def kill(process: Process) -> int:
    """kill -9, server and worker; returns the moment (ns)."""
    server = psutil.Process(process.process.pid)
    workers = server.children(recursive=True)
    moment = time.time_ns()
    for one in (server, *workers):
        one.send_signal(signal.SIGKILL)
    process.process.wait(10)
    return moment


async def landed(process: Process) -> None:
    """Wait until the journal has nothing that is not in Postgres."""
    nothing = re.compile(r"^fairlane_usage_journal_pending 0", flags=re.MULTILINE)
    async with httpx.AsyncClient(base_url=process.url, trust_env=False) as client:
        await until(lambda: client.get("/metrics"), lambda answer: nothing.search(answer.text))


async def reached(count: Callable[[], int], goal: int) -> None:
    """Wait until something has come to so many."""

    async def ask() -> int:
        return count()

    await until(ask, lambda found: found >= goal)


async def told(load: Load, number: int) -> None:
    """Wait until so many more calls were answered."""
    await reached(lambda: len(load.told), len(load.told) + number)


async def repeated(
    site: Site, process: Process, known: dict[str, str], number: int
) -> dict[str, str]:
    """Repeat the calls that were made with a key, which must have the ids that they had; and
    make some new ones, but for the last time: their keys and ids."""
    made = {} if number == KILLS else {f"{number}-{each}": "" for each in range(5)}
    async with httpx.AsyncClient(base_url=process.url, trust_env=False) as client:
        for key, request in {**known, **made}.items():
            headers = {"authorization": f"Bearer {site.key}", "idempotency-key": key}
            answer = await client.post(CHAT, json=chat_body(), headers=headers)
            assert answer.status_code == 200
            made[key] = answer.headers["x-request-id"]
            assert request in ("", made[key])
    return {key: request for key, request in made.items() if key not in known}


async def test_h04_kill_9_under_load_costs_the_last_100_ms_and_doubles_nothing(
    site: Site, engine: Stub
) -> None:
    """Killed again and again under 200 calls a second; each start lands what the last has left.
    Calls with an ``Idempotency-Key`` are repeated at the next start, and charged once."""
    draw = random.Random(3)
    answered: set[str] = set()
    durable: set[str] = set()
    killed: list[int] = []
    keyed: dict[str, str] = {}
    for number in range(KILLS):
        async with site.serving() as process:
            keyed |= await repeated(site, process, keyed, number)
            async with loaded(process.url, site.key, PER_S) as load:
                await told(load, draw.randrange(100, 250))
                killed.append(await asyncio.to_thread(kill, process))
            assert {one.status for one in load.told} == {200}
            answered |= load.ids()
            durable |= load.ids(before=killed[-1] - LOST_NS)
    async with site.serving() as process:
        assert await repeated(site, process, keyed, KILLS) == {}
        await landed(process)
        rows = site.rows()
    answered |= set(keyed.values())
    assert set(keyed.values()) <= rows.keys()
    assert durable <= rows.keys()
    # What is on record and was not heard by its caller was on its way when the end came.
    for request in rows.keys() - answered:
        assert any(moment - LOST_NS <= rows[request] <= moment + LOST_NS for moment in killed)
    assert len(durable) >= 60 * KILLS


async def test_h04_sigterm_loses_nothing_of_calls_and_open_streams(
    site: Site, engine: Stub
) -> None:
    """Calls at 200 a second and twenty streams still open when the word to stop comes."""
    let_go = asyncio.Event()

    async def answer(seen: Seen, wire: Wire) -> None:
        if seen.prompt != "long":
            await polite(seen, wire)
            return
        await wire.begin_stream()
        await wire.chunk(delta("a"))
        await let_go.wait()
        await wire.chunk(delta("b") + delta(None, finish="stop") + usage_event(7, 2) + DONE)
        await wire.end_stream()

    engine.answer = answer
    async with site.serving() as process:
        async with loaded(process.url, site.key, PER_S) as load:
            streams = [asyncio.create_task(load.stream("long")) for _ in range(20)]
            await told(load, 100)
            await reached(lambda: load.streaming, 20)
            process.process.send_signal(signal.SIGTERM)
            # From here on calls are refused, or find nobody.
            await reached(lambda: load.broken + load.refused, 1)
            let_go.set()
            await asyncio.gather(*streams)
        assert await asyncio.to_thread(process.process.wait, 30) == 0
    assert {one.status for one in load.told} <= {200, 503}
    assert load.ended == 20
    assert load.ids() == site.rows().keys()
    assert site.journal == []
    shares, busy = site.gpu_seconds()
    assert busy > 0
    assert shares == pytest.approx(busy, rel=1e-6)


async def test_h04_postgres_may_be_away(site: Site, engine: Stub) -> None:
    """Calls go on and their rows land later; then it is away again while the gateway dies with
    its last row half written: that is reported, and the rest lands."""
    async with site.serving() as process:
        async with loaded(process.url, site.key, 50) as load:
            await told(load, 20)
            site.postgres.stop()
            await asyncio.sleep(AWAY_S)
            await told(load, 20)
            site.postgres.start()
        await landed(process)
        assert site.rows().keys() == load.ids()
        assert {one.status for one in load.told} == {200}

        site.postgres.stop()
        async with loaded(process.url, site.key, 50) as more:
            await told(more, 50)
        await asyncio.sleep(LOST_NS / 1e9)
        assert not more.broken
        await asyncio.to_thread(kill, process)
    torn = site.journal[-1]
    os.truncate(torn, torn.stat().st_size - 7)
    site.postgres.start()
    async with site.serving() as process:
        await landed(process)
        found = site.rows().keys() - load.ids()
        cut = re.search(rf"cut (\d+) bytes that were no whole row from {torn}", process.text())
    assert cut is not None
    assert len(more.ids() - found) == 1
    assert found < more.ids()
