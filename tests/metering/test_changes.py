"""Changes are heard within two seconds, with and without the notification."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest
from django.db import connection, transaction

from metering import changes
from metering.changes import ChangeListener
from metering.models import ChangeVersion
from metering.postgres import conninfo
from metering.services.changes import announce

pytestmark = pytest.mark.django_db(transaction=True)

ACCESS, FLEET, POLICY = ChangeVersion.Topic.ACCESS, ChangeVersion.Topic.FLEET, "policy"
CONNINFO = "metering.changes.conninfo"


class Heard:
    """Collects topics and lets a test wait for one."""

    def __init__(self) -> None:
        self.topics: list[str] = []
        self._news = asyncio.Event()

    async def __call__(self, topic: str) -> None:
        self.topics.append(topic)
        self._news.set()

    async def wait(self, topic: str, times: int = 1, *, within: float = 20.0) -> None:
        async with asyncio.timeout(within):
            while self.topics.count(topic) < times:
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def listening(on_change: Callable[[str], Awaitable[None]]) -> AsyncIterator[None]:
    task = asyncio.create_task(ChangeListener().run(on_change))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def elsewhere(statement: str) -> None:
    """Run one statement on a connection of another process's kind."""
    async with await psycopg.AsyncConnection.connect(conninfo("test"), autocommit=True) as other:
        await other.execute(statement)


RAISE = (
    "INSERT INTO metering_changeversion AS held VALUES ('{0}', 1)"
    " ON CONFLICT (topic) DO UPDATE SET version = held.version + 1"
)


async def test_every_topic_is_told_once_at_the_start() -> None:
    heard = Heard()
    async with listening(heard):
        await heard.wait(POLICY)
        # A later look at the versions tells what is new and nothing else.
        await elsewhere(RAISE.format("fleet"))
        await heard.wait("fleet", 2)
    assert sorted(heard.topics) == ["access", "books", "fleet", "fleet", "policy"]


async def test_a_notification_is_heard_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Without the backstop: only NOTIFY can be what brings it.
    monkeypatch.setattr(changes, "POLL_S", 3600.0)
    heard = Heard()
    async with listening(heard):
        await heard.wait(POLICY)
        await elsewhere(f"{RAISE.format('access')}; NOTIFY fairlane, 'access'")
        await heard.wait("access", 2)
    assert heard.topics.count("fleet") == 1


async def test_a_change_without_notification_is_heard_at_the_next_look() -> None:
    assert changes.POLL_S < 2.0
    heard = Heard()
    async with listening(heard):
        await heard.wait(POLICY)
        await elsewhere(RAISE.format("fleet"))
        await heard.wait("fleet", 2)
    assert heard.topics.count("access") == 1


async def test_a_notification_without_change_is_nothing() -> None:
    heard = Heard()
    async with listening(heard):
        await heard.wait(POLICY)
        for _ in range(5):
            await elsewhere("NOTIFY fairlane, 'access'")
        await elsewhere(RAISE.format("fleet"))
        await heard.wait("fleet", 2)
    assert heard.topics.count("access") == 1


async def test_a_broken_connection_is_made_anew() -> None:
    heard = Heard()
    async with listening(heard):
        await heard.wait(POLICY)
        await elsewhere(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'fairlane changes' AND datname = current_database()"
        )
        await elsewhere(f"{RAISE.format('access')}; NOTIFY fairlane, 'access'")
        await heard.wait("access", 2)


async def test_an_outage_is_outlived_and_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    attempts, tried = iter(range(100)), asyncio.Event()

    def nowhere(_name: str) -> str:
        if next(attempts) == 2:
            tried.set()
        return "host=/nonexistent dbname=none"

    monkeypatch.setattr(CONNINFO, nowhere)
    async with listening(heard):
        await asyncio.wait_for(tried.wait(), 20)
        assert heard.topics == []
        monkeypatch.setattr(CONNINFO, conninfo)
        await heard.wait(POLICY)
    assert caplog.text.count("changes are not heard") == 1


async def test_what_could_not_be_taken_up_is_told_again(caplog: pytest.LogCaptureFixture) -> None:
    heard = Heard()
    failures = iter([True])

    async def on_change(topic: str) -> None:
        if topic == "access" and next(failures, False):
            raise RuntimeError("snapshot could not be loaded")
        await heard(topic)

    async with listening(on_change):
        await heard.wait("access")
    assert "snapshot could not be loaded" in caplog.text
    assert sorted(heard.topics) == ["access", "books", "fleet", "policy"]


def test_versions_rise_with_the_transaction_or_not_at_all() -> None:
    announce(ACCESS)
    announce(ACCESS)
    with suppress(ZeroDivisionError), transaction.atomic():
        announce(FLEET)
        _ = 1 / 0
    assert dict(ChangeVersion.objects.values_list("topic", "version")) == {"access": 2}


def test_the_notification_is_sent_on_commit() -> None:
    with psycopg.connect(conninfo("test"), autocommit=True) as listener:
        listener.execute("LISTEN fairlane")
        with transaction.atomic():
            announce(ACCESS)
            assert connection.in_atomic_block
            assert list(listener.notifies(timeout=0.1)) == []
        [told] = list(listener.notifies(timeout=5, stop_after=1))
    assert told.payload == "access"
