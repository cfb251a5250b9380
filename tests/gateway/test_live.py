"""Real processes on a real database: changes by command, an orderly stop, few connections."""

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from .harness import chat_body
from .live import (
    PATIENT,
    READY_S,
    Installation,
    Live,
    Process,
    client_of,
    furnish,
    name_of,
    new_database,
    replica_row,
    serving,
)
from .raw import CHAT, raw
from .stub import DONE, Held, Seen, Stub, Wire, delta, polite, stub, usage_event

# What a process may hold: the pool of 8, and a few of their own for changes and journals; some
# are closing while the next are there.
MOST_CONNECTIONS = 8 + 8


@pytest.fixture(scope="module")
def furnished(
    database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """An installation to be copied."""
    with new_database(database_url) as database:
        yield furnish(database, tmp_path_factory.mktemp("template"))


@pytest.fixture(scope="module")
def shared(
    furnished: Installation, database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Process]:
    """One process of role ``all`` for the tests that leave it as they found it."""
    with (
        copied(furnished, database_url, tmp_path_factory.mktemp("shared")) as installation,
        serving(installation, role="all") as process,
    ):
        yield process
        output = process.text()
    assert process.process.wait(1) == 0
    assert "Traceback" not in output
    for key in installation.keys.values():
        assert key not in output


@contextlib.contextmanager
def copied(furnished: Installation, server: str, folder: Path) -> Iterator[Installation]:
    """A copy with a database and a folder of its own."""
    with new_database(server, name_of(furnished.database)) as database:
        environment = {
            **furnished.environment,
            "DATABASE_URL": database,
            "FAIRLANE_DATA_DIR": str(folder / "data"),
        }
        yield replace(furnished, environment=environment, folder=folder)


@pytest.fixture
async def engine(furnished: Installation) -> AsyncIterator[Stub]:
    async with stub(port=furnished.engine_port) as running:
        yield running


@pytest.fixture
async def running(shared: Process, engine: Stub) -> AsyncIterator[Live]:
    """The shared process, once it has found the replica that this test brings."""
    async with client_of(shared) as found:
        await served(found)
        yield found


async def served(running: Live, key: str = "") -> None:
    """Wait until calls are served."""
    for _ in range(1000):
        if (await running.chat("probe", key or running.keys["urgent"])).status_code == 200:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(running.process.text())


async def within(seconds: float, ask: Callable[[], Awaitable[bool]]) -> float:
    """Ask again and again until it is so; fails when that takes too long."""
    start = time.monotonic()
    while not await ask():
        assert time.monotonic() - start < seconds
        await asyncio.sleep(0.02)
    return time.monotonic() - start


async def test_changes_by_command_take_effect_without_a_restart(
    running: Live, tmp_path: Path
) -> None:
    """A fleet, a key, another policy, another replica, the key's withdrawal: each is heard by
    the process that runs, without a restart; and every call has its row."""

    async def apply(url: str, name: str) -> None:
        fleet = {
            "models": [{"name": "second", "weight": "medium", "task": "chat"}],
            "replicas": [replica_row(name, url, "second")],
            "businesses": [{"name": "changing", "grade": "basic", "offline": True}],
        }
        path = tmp_path / "fleet.yaml"
        path.write_text(json.dumps(fleet), encoding="utf-8")
        await running.command("fleet", "apply", str(path))

    async with stub() as first, stub() as second:
        await apply(first.url, "moving")
        key = (await running.command("key", "create", "changing")).strip()
        assert key.startswith("fl_live_")

        async def call(header: str, value: str) -> bool:
            response = await running.chat("x", key, model="second")
            return str(response.headers.get(header)) == value

        await within(READY_S, lambda: call("x-replica", "moving"))
        policy = tmp_path / "policy.yaml"
        row = "{grade: basic, offline: true, level: 9}"
        rules = f"{PATIENT[:-1]}, classification: {{mapping: [{row}]}}}}"
        policy.write_text(rules, encoding="utf-8")
        assert not await call("x-priority-level", "9")
        await running.command("policy", "import", str(policy), "--activate")
        await within(READY_S, lambda: call("x-priority-level", "9"))
        # The same replica at another address: no call fails meanwhile.
        await apply(second.url, "moving")
        first.seen.clear()

        async def moved() -> bool:
            assert (await running.chat("x", key, model="second")).status_code == 200
            return bool(second.seen)

        await within(READY_S, moved)
        await running.command("key", "revoke", "changing", key[:12])

        async def refused() -> bool:
            return (await running.chat("x", key, model="second")).status_code == 401

        await within(READY_S, refused)
    rows = await running.landed("changing", 4)
    assert {row["requested_model"] for row in rows} == {"second"}
    assert {row["served_model"] for row in rows if row["status"] == "ok"} == {"org/Model-7B"}
    assert {row["key_prefix"] for row in rows} == {key[:12]}
    assert key not in running.process.text()


async def test_odd_names_do_not_keep_rows_from_landing(running: Live) -> None:
    """What callers write into a request must not stop the journal: every row lands."""
    key = running.keys["odd"]
    odd = ["a\x00b", "m" * 5000, "模型 🌍", "\n", "'; DROP TABLE x --", "\\u0000"]
    for name in odd:
        assert (await running.chat("x", key, model=name)).status_code == 404
    headers = {"authorization": f"Bearer {key}", "x-request-id": "id'; DROP TABLE x --"}
    response = await running.client.post(CHAT, json=chat_body(), headers=headers)
    assert response.status_code == 200
    rows = await running.landed("odd", len(odd) + 1)
    models = {str(row["requested_model"]) for row in rows}
    assert models >= {"模型 🌍", "m" * 200, "\n", "'; DROP TABLE x --", "\\u0000"}
    assert "id'; DROP TABLE x --" in {row["client_request_id"] for row in rows}


async def slow_stream(seen: Seen, wire: Wire) -> None:
    """A stream that takes a while, for calls that ask for one."""
    if not seen.json.get("stream"):
        await polite(seen, wire)
        return
    await wire.begin_stream()
    for number in range(10):
        await wire.chunk(delta(f"t{number}"))
        await asyncio.sleep(0.1)
    await wire.chunk(delta(None, finish="stop") + usage_event() + DONE)
    await wire.end_stream()


async def test_h01_no_request_holds_a_database_connection(running: Live, engine: Stub) -> None:
    """H01: three waves of a hundred calls at once, beside pages of the console that read the
    database, then a hundred streams: connections stay within the pool's bound."""
    engine.answer = slow_stream
    key = running.keys["waves"]
    most: list[int] = []
    done = asyncio.Event()

    async def watch() -> None:
        while not done.is_set():
            most.append(await running.connections())

    async def page() -> int:
        headers = {"cookie": f"sessionid={os.urandom(16).hex()}"}
        return (await running.client.get("/keys/", headers=headers)).status_code

    async def call(*, stream: bool) -> int:
        response = await running.chat("x", key, stream=stream)
        assert response.content.endswith(DONE if stream else b"}")
        return response.status_code

    watching = asyncio.create_task(watch())
    for _ in range(3):
        calls = [call(stream=False) for _ in range(100)]
        pages = [page() for _ in range(40)]
        assert set(await asyncio.gather(*calls)) == {200}
        assert set(await asyncio.gather(*pages)) == {302}
    assert set(await asyncio.gather(*(call(stream=True) for _ in range(100)))) == {200}
    done.set()
    await watching
    assert 0 < max(most) <= MOST_CONNECTIONS
    assert len(await running.landed("waves", 400)) == 400


async def test_a02_a_hang_up_reaches_the_replica_through_the_real_server(
    running: Live, engine: Stub
) -> None:
    """A02: with everything in place that production has, plain call and stream alike."""
    engine.answer = Held()
    for stream in (False, True):
        engine.seen.clear()
        async with raw(running.url) as client:
            await client.post(running.keys["owner"], chat_body("endless", stream=stream))
            await running.until(lambda: engine.seen)
            client.hang_up()
            await running.until(engine.seen[0].closed.is_set)


async def test_a_crowd_that_waits_keeps_nobody_out(running: Live) -> None:
    """More connections than the server's own default would let in: an urgent call is served."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(1500):
            await stack.enter_async_context(raw(running.url))
        response = await asyncio.wait_for(running.chat("x", running.keys["urgent"]), 30)
        assert response.status_code == 200


async def test_the_database_may_go_and_come_back(running: Live, database_url: str) -> None:
    """Without it requests are served from what is known, and rows land when it is back."""
    key = running.keys["away"]
    name = name_of(running.process.installation.database)

    def allow(connections: bool) -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            text = sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
            connection.execute(text.format(sql.Identifier(name), sql.Literal(connections)))
            if not connections:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
                    (name,),
                )

    await asyncio.to_thread(allow, False)
    for _ in range(20):
        assert (await running.chat("x", key)).status_code == 200
    assert (await running.client.get("/readyz")).status_code == 200
    told = "changes are heard again"
    heard = running.process.text().count(told)
    await asyncio.to_thread(allow, True)
    assert len(await running.landed("away", 20)) == 20
    await running.until(lambda: running.process.text().count(told) > heard)


async def test_readiness_and_metrics(running: Live) -> None:
    """What a supervisor asks: alive, ready with the versions it works by, and its figures."""
    ready = await running.client.get("/readyz")
    assert ready.json().keys() >= {"status", "access", "fleet", "policy"}
    assert (await running.client.get("/healthz")).status_code == 200
    metrics = (await running.client.get("/metrics")).text
    assert 'fairlane_replica_state{replica="a",state="ready"} 1.0' in metrics
    assert 'fairlane_requests_total{business="urgent",lane="P0",outcome="ok"}' in metrics
    assert 'fairlane_predicted_service_error_seconds_count{lane="P0"}' in metrics
    assert 'fairlane_predicted_latency_error_seconds_count{lane="P0"}' in metrics
    lines = running.process.text().splitlines()
    assert all(json.loads(line)["level"] for line in lines if line.startswith("{"))


@pytest.mark.parametrize("role", ["gateway", "all"])
async def test_h04_sigterm_loses_no_answer_and_no_row(
    role: str, furnished: Installation, engine: Stub, database_url: str, tmp_path: Path
) -> None:
    """H04: queued callers get 503 at once, streams finish, live sockets are closed, the process
    ends by itself, and every row is in the database."""
    held = Held()
    with copied(furnished, database_url, tmp_path) as installation:
        with serving(installation, role=role) as process:
            async with client_of(process) as running, watching(running, role) as watcher:
                await stop_in_full_swing(running, engine, held)
                await watcher
                assert await asyncio.to_thread(process.process.wait, 10) == 0
                rows = await running.rows("narrow")
        statuses = [str(row["status"]) for row in rows]
        assert sorted(statuses) == ["ok"] * 22 + ["shutting_down"] * 3
        assert "Traceback" not in process.text()


async def test_a_worker_does_not_outlive_the_process_that_started_it(
    furnished: Installation, engine: Stub, database_url: str, tmp_path: Path
) -> None:
    """kill -9 of the parent: two gateways on one fleet would each count only their own. The
    worker lets its streams end, writes its rows, and goes."""
    held = Held()
    with (
        copied(furnished, database_url, tmp_path) as installation,
        serving(installation, role="gateway") as process,
    ):
        (worker,) = workers(process.process.pid)
        async with client_of(process) as running:
            await served(running)
            engine.answer = held
            key = running.keys["owner"]
            stream = asyncio.create_task(running.chat("s", key, stream=True))
            await running.until(lambda: held.order == ["s"])
            process.process.kill()
            process.process.wait(5)
            await asyncio.sleep(0.2)
            assert worker.is_running()
            held.finish("s")
            assert (await stream).content.endswith(DONE)
            await running.until(lambda: not worker.is_running())
            assert [str(row["status"]) for row in await running.rows("owner")] == ["ok"]


def workers(parent: int) -> list[psutil.Process]:
    """The processes that serve for a ``serve`` command."""
    return [
        child
        for child in psutil.Process(parent).children()
        if "resource_tracker" not in " ".join(child.cmdline())
    ]


@contextlib.asynccontextmanager
async def watching(running: Live, role: str) -> AsyncIterator[Awaitable[None]]:
    """An operator who watches; the result waits for the socket's end."""
    if role != "all":
        yield asyncio.sleep(0)
        return
    session = running.process.installation.session
    async with connect(
        f"{running.url.replace('http', 'ws')}/ws/live/",
        additional_headers={"Cookie": f"sessionid={session}", "Origin": running.url},
    ) as socket:
        assert json.loads(await socket.recv())["type"] == "snapshot"

        async def closed() -> None:
            with contextlib.suppress(ConnectionClosed):
                while True:
                    await asyncio.wait_for(socket.recv(), 30)

        yield closed()


async def stop_in_full_swing(running: Live, engine: Stub, held: Held) -> None:
    """SIGTERM while two streams run and three calls wait, after twenty were served."""
    key = running.keys["narrow"]
    await served(running, running.keys["urgent"])
    served_before = await asyncio.gather(*(running.chat("x", key) for _ in range(20)))
    assert {response.status_code for response in served_before} == {200}
    engine.answer = held
    streams = [asyncio.create_task(running.chat(f"s{n}", key, stream=True)) for n in range(2)]
    await running.until(lambda: len(held.order) == 2)
    queued = [asyncio.create_task(running.chat(f"q{n}", key)) for n in range(3)]

    async def waiting() -> bool:
        metrics = (await running.client.get("/metrics")).text
        return 'fairlane_queue_depth{lane="P1"} 3.0' in metrics

    await within(READY_S, waiting)
    running.process.process.send_signal(signal.SIGTERM)
    for call in queued:
        response = await asyncio.wait_for(call, READY_S)
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "shutting_down"
        assert int(response.headers["retry-after"]) >= 1
    assert running.process.process.poll() is None
    held.finish("s0", "s1")
    for stream in streams:
        assert (await stream).content.endswith(DONE)
