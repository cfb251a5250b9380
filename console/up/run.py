"""The order in which things start and stop."""

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from console.config.running import announced_database
from console.demo.record import read_record
from console.embedded_postgres import EmbeddedPostgres, EmbeddedPostgresError
from scheduler.fleet_document import ReplicaSpec

from .banner import demo_banner, first_key, plain_banner
from .children import Child, Children
from .errors import UpError
from .options import Options, check_port
from .ready import Waiter
from .replicas import LOGS, fleet_files, local_replicas, replica_child
from .signals import Signals

SERVE_GRACE_S = 40.0
# A task that has begun is finished; settlement is safe to break off as well.
WORKER_GRACE_S = 20.0


def say(line: str) -> None:
    """A line for the person at the terminal."""
    sys.stderr.write(f"fairlane: {line}\n")


def up(options: Options) -> int:
    """Run everything until a signal; 0 after an orderly stop, 1 with one line after trouble."""
    with Signals() as signals:
        try:
            options.data_dir.mkdir(parents=True, exist_ok=True)
            check_port(options.port)
            with _alone(options.data_dir):
                Run(options, signals).run()
        except (UpError, EmbeddedPostgresError) as error:
            say(str(error))
            return 1
        except OSError as error:
            say(f"{error.filename or options.data_dir}: {error.strerror}")
            return 1
    return 0


class Run:
    """One run: Postgres, replicas, the server, traffic; ended in the opposite order."""

    def __init__(self, options: Options, signals: Signals) -> None:
        self._options = options
        self._signals = signals
        self._postgres = (
            None if options.database_url else EmbeddedPostgres(options.data_dir / "postgres")
        )

    def run(self) -> None:
        """Until a wish to stop; UpError or EmbeddedPostgresError when it cannot go on."""
        with _database(self._options, self._postgres) as url:
            environment = self._environment(url)
            children = Children(self._signals, env=environment, cwd=self._options.root, say=say)
            try:
                self._start(children)
                while not self._signals.stopping:
                    children.look()
                    self._look_at_postgres()
                    self._signals.wait(children.next_look_s())
                say("stopping")
            finally:
                children.stop()

    def _start(self, children: Children) -> None:
        """Everything in order; returns early when asked to stop on the way."""
        options = self._options
        replicas = local_replicas(fleet_files(options)[0])
        for replica in replicas:
            children.start(replica_child(replica, options))
        children.run("preparing the database", self._prepare(replicas))
        if self._signals.stopping:
            return
        children.start(
            Child(
                "the server",
                [*self._manage("serve"), "--role", "all", "--port", str(options.port)],
                essential=True,
                grace_s=SERVE_GRACE_S,
            )
        )
        children.start(self._worker())
        waiter = Waiter(options.base_url, self._signals, children)
        waiter.ready()
        record = read_record(options.demo_file) if options.demo else None
        if record is None:
            self._show(plain_banner(options.base_url, os.path.relpath(sys.executable)))
            return
        models = [name for replica in replicas for name in replica.models]
        model = models[-1]
        waiter.answered(first_key(record.keys), model)
        self._show(demo_banner(record, model=model))
        children.start(self._traffic(models))

    def _show(self, text: str) -> None:
        if not self._signals.stopping:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _prepare(self, replicas: list[ReplicaSpec]) -> list[str]:
        options = self._options
        running, idle = fleet_files(options)
        places = [f"{replica.name}={replica.url}" for replica in replicas]
        return [
            *self._manage("prepare"),
            *(("--demo", options.base_url) if options.demo else ()),
            *(part for path in running for part in ("--running", str(path))),
            *(part for path in idle for part in ("--idle", str(path))),
            *(part for place in places for part in ("--replica", place)),
        ]

    def _worker(self) -> Child:
        """Settlement, bills and alerts; nothing waits for it."""
        return Child(
            "the worker",
            [*self._manage("worker"), "--beat"],
            log=self._options.data_dir / LOGS / "worker.log",
            grace_s=WORKER_GRACE_S,
        )

    def _traffic(self, models: list[str]) -> Child:
        options = self._options
        module = [sys.executable, "-m", "console.demo.traffic"]
        command = [*module, str(options.demo_file), *dict.fromkeys(models)]
        return Child("demo traffic", command, log=options.data_dir / LOGS / "traffic.log")

    def _manage(self, command: str) -> list[str]:
        return [sys.executable, str(self._options.root / "manage.py"), command]

    def _environment(self, url: str) -> dict[str, str]:
        return {
            "LOG_FORMAT": "console",
            **os.environ,
            **({} if self._postgres is None else {"DATABASE_URL": url}),
            "FAIRLANE_DATA_DIR": str(self._options.data_dir),
            "PYTHONUNBUFFERED": "1",
        }

    def _look_at_postgres(self) -> None:
        if self._postgres is not None and not self._postgres.running:
            say("the database ended unexpectedly; starting it again")
            self._postgres.stop()
            self._postgres.start()


@contextmanager
def _database(options: Options, postgres: EmbeddedPostgres | None) -> Iterator[str]:
    """The database's address; the embedded server runs meanwhile, if there is one."""
    if postgres is None:
        yield options.database_url
        return
    url = postgres.start()
    try:
        with announced_database(options.data_dir, url):
            yield url
    finally:
        postgres.stop()


@contextmanager
def _alone(data_dir: Path) -> Iterator[None]:
    """Held while running: two on one data folder would fight over it."""
    path = data_dir / "up.lock"
    with path.open("a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise UpError(
                f"process {file.read().strip() or '?'} is running Fairlane on {data_dir} already"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
