"""Start and stop the server."""

import fcntl
import logging
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psycopg

from console.processes import spawn, stop

from .errors import EmbeddedPostgresError
from .leftover import clear_leftover
from .placement import Placement, place

logger = logging.getLogger(__name__)

DATABASE = "fairlane"
START_DEADLINE_S = 60.0
STOP_GRACE_S = 30.0
LOG_BYTES = 4 * 1024 * 1024


class EmbeddedPostgres:
    """A PostgreSQL server that belongs to this process and keeps its data in ``data_dir``.

    It listens on a Unix socket in a folder that only its user may enter, and nowhere else.
    It ends when ``stop`` is called or the starting thread ends, whichever comes first.
    ``durable=False`` trades safety at power loss for speed: for tests only.
    """

    def __init__(self, data_dir: Path, *, durable: bool = True) -> None:
        self._wanted = data_dir.resolve()
        self._durable = durable
        self._placement: Placement | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[bytes] | None = None

    @property
    def placement(self) -> Placement:
        """Where its files are; decided once, at first sight."""
        if self._placement is None:
            self._placement = place(self._wanted)
        return self._placement

    @property
    def url(self) -> str:
        """The address of the database, known before the server runs."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """The address of another database of the same server."""
        return f"postgresql://fairlane@/{database}?host={quote(str(self.placement.sockets))}"

    @property
    def log(self) -> Path:
        """What the server itself writes."""
        return self._wanted.with_suffix(".log")

    @property
    def running(self) -> bool:
        """Whether the server's process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> str:
        """Start the server, on first use after making its data, and return ``url``.

        Raises EmbeddedPostgresError with one line for the operator.
        """
        if self.running:
            return self.url
        self._take_lock()
        try:
            clear_leftover(self.placement.cluster)
            self._initialise()
            self._launch()
            self._wait()
        except BaseException:  # whatever ended the start: no server is left behind
            self.stop()
            raise
        return self.url

    def stop(self) -> None:
        """Close connections, write everything down and end; safe to call at any time."""
        if self._process is not None:
            # SIGINT is PostgreSQL's fast shutdown: it does not wait for clients to leave.
            if not stop(self._process, signal.SIGINT, grace_s=STOP_GRACE_S):
                logger.warning("the database had to be killed; it recovers at the next start")
            self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _take_lock(self) -> None:
        path = self.placement.cluster.with_suffix(".lock")
        lock = path.open("ab")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise EmbeddedPostgresError(
                f"the database in {self.placement.cluster} is in use by another Fairlane"
            ) from None
        self._lock = lock

    def _initialise(self) -> None:
        """Make the cluster beside its final place, so that a broken run leaves none behind."""
        place = self.placement
        if place.cluster.exists():
            return
        draft = place.cluster.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700)
        if place.account:
            os.chown(draft, place.account.uid, place.account.gid)
        command = [
            *(place.programs / "initdb", "--pgdata", draft, "--username", "fairlane"),
            *("--auth", "trust", "--encoding", "UTF8", "--no-instructions"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8", "--locale", "C"),
            *(() if self._durable else ("--no-sync",)),
        ]
        with self._output() as output:
            made = spawn(
                command, env=_environment(), cwd=Path("/"), output=output, account=place.account
            )
            if made.wait() != 0:
                raise EmbeddedPostgresError(f"initdb failed: {self._last_line()}")
        draft.rename(place.cluster)

    def _launch(self) -> None:
        place = self.placement
        options = {
            "listen_addresses": "",
            # Quoted, because the value is a list and a path may hold a comma.
            "unix_socket_directories": f'"{place.sockets}"',
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_checkpoints": "off",
            "max_connections": "100",
        }
        if not self._durable:
            options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
        settings = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with self._output() as output:
            self._process = spawn(
                [place.programs / "postgres", "-D", place.cluster, *settings],
                env=_environment(),
                cwd=Path("/"),
                output=output,
                death_signal=signal.SIGINT,
                account=place.account,
            )

    def _wait(self) -> None:
        """Until the database answers; on the way make it if the cluster has none."""
        deadline = time.monotonic() + START_DEADLINE_S
        while True:
            if not self.running:
                raise EmbeddedPostgresError(f"the database did not start: {self._last_line()}")
            try:
                with psycopg.connect(self.url_of("postgres"), autocommit=True) as connection:
                    found = connection.execute(
                        "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
                    ).fetchone()
                    if not found:
                        connection.execute(f"CREATE DATABASE {DATABASE}")
                    return
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    line = str(error).strip().partition("\n")[0]
                    raise EmbeddedPostgresError(f"the database does not answer: {line}") from None
            time.sleep(0.02)

    def _output(self) -> IO[bytes]:
        """The server's log, begun anew when it has grown large."""
        large = self.log.exists() and self.log.stat().st_size > LOG_BYTES
        return self.log.open("wb" if large else "ab")

    def _last_line(self) -> str:
        """The last thing it complained about."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        marks = ("FATAL:", "PANIC:", "ERROR:", "error:")
        for line in reversed(lines[-40:]):
            for mark in marks:
                if mark in line:
                    return f"{line.partition(mark)[2].strip()} (see {self.log})"
        return f"see {self.log}"


def _environment() -> dict[str, str]:
    """Nothing of ours: PG* variables would change what initdb does."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
