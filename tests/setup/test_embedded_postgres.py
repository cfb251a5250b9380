"""The embedded database: data kept, killed runs survived, nobody's folders opened up."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from console.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError

from .support import modes, run_sql, server_pid, wait_until

ROOT = Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0


def test_keeps_its_data_between_runs(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    url = postgres.start()
    run_sql(url, "CREATE TABLE kept (note text)")
    run_sql(url, "INSERT INTO kept VALUES ('still here')")
    pid = server_pid(postgres)
    postgres.stop()
    assert not psutil.pid_exists(pid)
    assert not postgres.running

    assert postgres.start() == url
    assert run_sql(url, "SELECT note FROM kept") == [("still here",)]
    postgres.stop()


def test_listens_on_a_private_socket_only(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    url = postgres.start()
    assert run_sql(url, "SHOW listen_addresses") == [("",)]
    assert postgres.placement.sockets.stat().st_mode & 0o077 == 0
    process = psutil.Process(server_pid(postgres))
    assert not [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]
    if AS_ROOT:
        assert process.uids().real != 0
    postgres.stop()


def test_recovers_from_a_killed_server(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / "postgres")
    url = postgres.start()
    run_sql(url, "CREATE TABLE kept (note text)")
    run_sql(url, "INSERT INTO kept VALUES ('written')")
    pid = server_pid(postgres)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not postgres.running)
    assert (postgres.placement.cluster / "postmaster.pid").exists()
    postgres.stop()

    again = EmbeddedPostgres(open_folder / "postgres")
    assert run_sql(again.start(), "SELECT note FROM kept") == [("written",)]
    again.stop()


def test_a_stranger_with_the_old_number_is_no_obstacle(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    postgres.start()
    account = postgres.placement.account
    postgres.stop()
    stranger = subprocess.Popen(
        ["sleep", "60"], user=account.uid if account else None, extra_groups=None
    )
    try:
        pid_file = postgres.placement.cluster / "postmaster.pid"
        pid_file.write_text(f"{stranger.pid}\n{postgres.placement.cluster}\n", encoding="ascii")
        postgres.start()
        postgres.stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


STARTER = """
import sys, time
from pathlib import Path
from console.embedded_postgres import EmbeddedPostgres
postgres = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
print(postgres.start(), flush=True)
print((postgres.placement.cluster / "postmaster.pid").read_text().partition("\\n")[0], flush=True)
time.sleep(600)
"""


def start_elsewhere(folder: Path) -> tuple[subprocess.Popen[str], str, int]:
    """A process of its own that starts a server; with the server's address and number."""
    owner = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    return owner, owner.stdout.readline().strip(), int(owner.stdout.readline())


def test_ends_with_a_killed_owner(open_folder: Path) -> None:
    owner, url, pid = start_elsewhere(open_folder / "postgres")
    run_sql(url, "SELECT 1")
    owner.kill()
    with owner:
        wait_until(lambda: not psutil.pid_exists(pid))


def test_a_second_user_of_the_folder_is_refused(open_folder: Path) -> None:
    owner, url, pid = start_elsewhere(open_folder / "postgres")
    with owner:
        with pytest.raises(EmbeddedPostgresError, match="in use by another Fairlane"):
            EmbeddedPostgres(open_folder / "postgres").start()
        assert run_sql(url, "SELECT 1") == [(1,)]
        owner.kill()
    wait_until(lambda: not psutil.pid_exists(pid))


def test_a_left_over_server_is_stopped_first(open_folder: Path) -> None:
    """Where no signal comes at the owner's death, its server is found by the next start."""
    first = EmbeddedPostgres(open_folder / "postgres", durable=False)
    first.start()
    pid = server_pid(first)
    # What the death of an owner does to its lock.
    assert first._lock is not None
    first._lock.close()
    second = EmbeddedPostgres(open_folder / "postgres", durable=False)
    second.start()
    assert server_pid(second) != pid
    second.stop()
    first.stop()


def test_no_mode_changes_when_the_way_is_open(open_folder: Path) -> None:
    before = modes(open_folder)
    postgres = EmbeddedPostgres(open_folder / "data" / "postgres", durable=False)
    postgres.start()
    postgres.stop()
    assert modes(open_folder) == before
    assert postgres.placement.cluster == open_folder / "data" / "postgres"


def test_long_paths_get_a_socket_elsewhere(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / ("long," * 25) / "postgres", durable=False)
    url = postgres.start()
    assert run_sql(url, "SELECT 1") == [(1,)]
    postgres.stop()
    assert postgres.placement.sockets.parent == Path("/tmp")
    postgres.placement.sockets.rmdir()


def test_trouble_is_one_line(open_folder: Path) -> None:
    postgres = EmbeddedPostgres(open_folder / "postgres", durable=False)
    postgres.start()
    postgres.stop()
    (postgres.placement.cluster / "PG_VERSION").write_text("9.1\n", encoding="ascii")
    with pytest.raises(EmbeddedPostgresError) as caught:
        postgres.start()
    assert "\n" not in str(caught.value)
    assert "incompatible with server" in str(caught.value)
