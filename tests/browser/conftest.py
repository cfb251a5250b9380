"""A whole running Fairlane with its demo, and a browser to look at it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from playwright.async_api import Browser, async_playwright
from psycopg import sql

from .books import BOOKS, CLOSE

ROOT = Path(__file__).resolve().parents[2]
SCREENSHOTS = ROOT / "build" / "screenshots"
START_S = 120.0
STOP_S = 60.0
# As root a browser has no sandbox; the rest keeps it from calling home.
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A network process of its own that dies on a busy machine takes a private window's cookies
    # along.
    "--enable-features=NetworkServiceInProcess2",
]


@dataclass
class Site:
    """A running installation: where it is, who may sign in, and what it has logged."""

    url: str
    data: Path
    logins: dict[str, tuple[str, str]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict, repr=False)

    def run(self, code: str) -> str:
        """What Python beside the installation prints: to make what no page makes."""
        done = subprocess.run(
            [sys.executable, "manage.py", "shell", "--no-imports", "-c", code],
            cwd=ROOT,
            env=self.env,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def read_demo(self) -> None:
        demo = json.loads((self.data / "demo.json").read_text(encoding="utf-8"))
        self.logins = {
            role: (login["username"], login["password"]) for role, login in demo["logins"].items()
        }
        self.keys = demo["keys"]

    def logs(self) -> str:
        """Everything that its processes wrote, but for the greeting, which shows the logins."""
        paths = [self.data / "errors.txt", *sorted((self.data / "logs").glob("*"))]
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in paths)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def a_database(url: str) -> Iterator[str]:
    name = f"browser_{os.urandom(4).hex()}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield url.replace("/fairlane?", f"/{name}?")
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)")
            connection.execute(drop.format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def site(database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """What ``make up`` starts, for all browser tests together."""
    data = tmp_path_factory.mktemp("site")
    port = free_port()
    found = Site(f"http://127.0.0.1:{port}", data)
    greeting = data / "greeting.txt"
    with (
        a_database(database_url) as url,
        greeting.open("w") as output,
        (data / "errors.txt").open("w") as errors,
    ):
        found.env = {**os.environ, "DATABASE_URL": url, "FAIRLANE_DATA_DIR": str(data)}
        process = subprocess.Popen(
            [sys.executable, "manage.py", "up", "--port", str(port)],
            cwd=ROOT,
            env=found.env,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + START_S
            while "Ctrl-C stops" not in greeting.read_text(encoding="utf-8"):
                assert process.poll() is None, found.logs()
                assert time.monotonic() < end, found.logs()
                time.sleep(0.1)
            found.read_demo()
            yield found
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            process.wait(STOP_S)


@pytest.fixture(scope="session")
def last_month(site: Site) -> str:
    """A month with usage that is over, as 2026-01; nobody has closed it for the test."""
    return site.run(BOOKS).strip()


@pytest.fixture(scope="session")
def closed_month(site: Site, last_month: str) -> str:
    """The same, closed: there are bills."""
    site.run(CLOSE.format(month=last_month))
    return last_month


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser of this test's own."""
    async with async_playwright() as playwright:
        opened = await playwright.chromium.launch(
            executable_path=os.environ.get("CHROMIUM", "/usr/bin/chromium"), args=CHROMIUM_FLAGS
        )
        yield opened
        await opened.close()
