"""A gateway as a process of its own, on a real database, told of changes by commands."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from .harness import chat_body, free_port
from .raw import CHAT

ROOT = Path(__file__).parents[2]
READY_S = 40.0
PLAIN = ("owner", "odd", "waves", "away")
Row = dict[str, object]


# Each test brings the replica and takes it along: that is no flapping.
PATIENT = "scheduler: {failover: {fail_threshold: 1000}}"


@dataclass(frozen=True)
class Installation:
    """A database that is furnished, the folder and secrets that belong to it, a key of each
    business, an operator's session, and the port at which its one replica is expected."""

    environment: dict[str, str]
    folder: Path
    keys: dict[str, str]
    session: str
    engine_port: int

    @property
    def database(self) -> str:
        """The database's address."""
        return self.environment["DATABASE_URL"]


def replica_row(name: str, url: str, model: str, *, slots: int = 200) -> Row:
    """A replica of a fleet file."""
    kind: Row = {"engine": "vllm", "pool": "pool", "slots": slots}
    return {"name": name, "url": url, "models": {model: "org/Model-7B"}, **kind}


def first_fleet(url: str) -> Row:
    """One replica, and businesses: an urgent one, one for each test that counts its rows, and
    one that may run two at a time."""
    return {
        "pools": [{"name": "pool", "kind": "elastic", "lanes": ["P0", "P1", "P2"]}],
        "models": [{"name": "chat", "weight": "medium", "task": "chat"}],
        "replicas": [replica_row("a", url, "chat")],
        "businesses": [
            {"name": "urgent", "grade": "vip", "ceiling": "P0", "realtime": "high"},
            *({"name": name, "grade": "premium"} for name in PLAIN),
            {"name": "narrow", "grade": "premium", "ceiling": "P1", "quota": {"running": 2}},
        ],
    }


@contextlib.contextmanager
def new_database(server: str, template: str = "") -> Iterator[str]:
    """The address of a database that is dropped afterwards, empty or a copy."""
    name = f"live_{os.urandom(4).hex()}"
    create = sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name))
    if template:
        create += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(create)
        try:
            yield server.replace("/fairlane?", f"/{name}?")
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


def name_of(database: str) -> str:
    """A database's name, from its address."""
    return database.split("?", maxsplit=1)[0].rpartition("/")[2]


def furnish(database: str, folder: Path) -> Installation:
    """Make an empty database ready, as a first start and some commands would."""
    environment = {
        **os.environ,
        "DATABASE_URL": database,
        "FAIRLANE_DATA_DIR": str(folder / "data"),
        "SECRET_KEY": os.urandom(24).hex(),
        "FAIRLANE_KEY_PEPPER": os.urandom(24).hex(),
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "DEBUG",
    }
    port = free_port()
    path = folder / "first.yaml"
    path.write_text(json.dumps(first_fleet(f"http://127.0.0.1:{port}")), encoding="utf-8")
    policy = folder / "policy.yaml"
    policy.write_text(PATIENT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.gateway.furnish", str(path), str(policy)],
        env=environment,
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
        timeout=60,
    )
    told = json.loads(done.stdout)
    return Installation(environment, folder, told["keys"], told["session"], port)


@dataclass
class Process:
    """A process that serves an installation."""

    installation: Installation
    url: str
    process: subprocess.Popen[bytes]
    output: Path

    def text(self) -> str:
        """What it has written."""
        return self.output.read_text(encoding="utf-8")


@contextlib.contextmanager
def serving(installation: Installation, *, role: str) -> Iterator[Process]:
    """Serve from readiness until the block ends, or until the process was told to stop."""
    port = free_port()
    output = installation.folder / f"output-{port}.txt"
    command = [sys.executable, "manage.py", "serve", "--role", role, "--port", str(port)]
    with output.open("wb") as file:
        process = subprocess.Popen(
            command, env=installation.environment, cwd=ROOT, stdout=file, stderr=file
        )
    running = Process(installation, f"http://127.0.0.1:{port}", process, output)
    try:
        _wait_ready(running)
        yield running
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
                raise


def _wait_ready(running: Process) -> None:
    deadline = time.monotonic() + READY_S
    with httpx.Client(base_url=running.url, trust_env=False) as client:
        while time.monotonic() < deadline:
            assert running.process.poll() is None, running.text()
            with contextlib.suppress(httpx.TransportError):
                if client.get("/readyz").status_code == 200:
                    return
            time.sleep(0.05)
    raise AssertionError(running.text())


@dataclass
class Live:
    """A process that serves, and a client."""

    process: Process
    client: httpx.AsyncClient

    @property
    def url(self) -> str:
        """Where it serves."""
        return self.process.url

    @property
    def keys(self) -> dict[str, str]:
        """A key of each business."""
        return self.process.installation.keys

    async def command(self, *words: str) -> str:
        """Run ``manage.py`` beside the process; returns what it printed."""

        def run() -> str:
            done = subprocess.run(
                [sys.executable, "manage.py", *words],
                env=self.process.installation.environment,
                cwd=ROOT,
                check=True,
                stdout=subprocess.PIPE,
                timeout=60,
            )
            return done.stdout.decode()

        return await asyncio.to_thread(run)

    async def chat(self, prompt: str, key: str, **more: object) -> httpx.Response:
        """One call."""
        headers = {"authorization": f"Bearer {key}"}
        return await self.client.post(CHAT, json=chat_body(prompt, **more), headers=headers)

    async def rows(self, business: str) -> list[Row]:
        """The usage records of a business, in order of arrival."""
        query = "SELECT * FROM metering_usagerecord WHERE business = %s ORDER BY id"

        def read() -> list[Row]:
            database = self.process.installation.database
            with psycopg.connect(database, row_factory=dict_row) as connection:
                return connection.execute(query, (business,)).fetchall()

        return await asyncio.to_thread(read)

    async def landed(self, business: str, count: int) -> list[Row]:
        """The usage records of a business, as soon as there are so many."""
        for _ in range(1000):
            rows = await self.rows(business)
            if len(rows) >= count:
                return rows
            await asyncio.sleep(0.05)
        raise AssertionError(f"only {len(await self.rows(business))} of {count} rows came")

    async def connections(self) -> int:
        """Connections to the database, our own excepted."""
        query = (
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )

        def read() -> int:
            with psycopg.connect(self.process.installation.database) as connection:
                row = connection.execute(query).fetchone()
                assert row is not None
                return int(row[0])

        return await asyncio.to_thread(read)

    async def until(self, condition: Callable[[], object], within: float = READY_S) -> float:
        """Wait for a condition; returns the seconds it took."""
        start = time.monotonic()
        while not condition():
            assert time.monotonic() - start < within, f"not within {within} s"
            await asyncio.sleep(0.01)
        return time.monotonic() - start


@contextlib.asynccontextmanager
async def client_of(process: Process) -> AsyncIterator[Live]:
    """A client of a process; each call on a connection of its own."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(
        base_url=process.url, timeout=30, trust_env=False, limits=limits
    ) as client:
        yield Live(process, client)
