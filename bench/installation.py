"""Fairlane as people install it: its own Postgres, its own commands, a folder to itself."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from console.embedded_postgres import EmbeddedPostgres
from scheduler.core.policy import Policy
from scheduler.policy_file import dump

from .machine import BenchError, Cores
from .process import ROOT, Server, free_port
from .upstream import MODEL

BUSINESS = "bench"
SLOTS = 512
FLEET = """
pools:
  - {{name: gpu, kind: elastic, lanes: [P0, P1, P2]}}
models:
  - {{name: chat, weight: medium, task: chat, realtime: medium}}
replicas:
  - {{name: upstream, url: "{url}", engine: vllm, pool: gpu, slots: {slots}, gpus: 1,
     models: {{chat: {model}}}}}
businesses:
  - {{name: {business}, grade: premium, ceiling: P1}}
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """One data folder and database with a fleet, and a key for each of some businesses."""

    folder: Path
    environment: dict[str, str]
    keys: dict[str, str]
    cores: Cores

    @property
    def key(self) -> str:
        """The key of the only business."""
        (key,) = self.keys.values()
        return key

    def manage(self, *arguments: str) -> str:
        """Run a ``manage.py`` command; returns what it prints. Raises BenchError."""
        return _run(["manage.py", *arguments], self.environment)

    def run(self, *arguments: str) -> str:
        """Run Python with these arguments; returns what it prints. Raises BenchError."""
        return _run(list(arguments), self.environment)

    @contextmanager
    def serving(self, role: str, *, everywhere: bool = False) -> Iterator[tuple[Server, int]]:
        """``manage.py serve`` in this role on the gateway's core, or on the load's too; the
        server and its port."""
        port = free_port()
        server = Server(
            "fairlane",
            [sys.executable, "manage.py", "serve", "--role", role, "--port", str(port)],
            core=self.cores.gateway,
            env=self.environment,
            folder=self.folder,
            other=self.cores.load if everywhere else None,
        )
        try:
            server.ready(f"http://127.0.0.1:{port}/readyz")
            yield server, port
        finally:
            server.stop()

    def sessions(self, count: int) -> list[str]:
        """Session cookies of ``count`` people signed in as operators."""
        output = _run(["-m", "bench.sessions", str(count)], self.environment)
        found: list[str] = json.loads(output)
        return found

    def preempted(self, business: str, since: float) -> tuple[int, int]:
        """How often calls of a business gave their slots up, and the tokens computed again for
        that: by the usage records of calls that came after ``since`` (s since the epoch)."""
        with psycopg.connect(self.environment["DATABASE_URL"]) as connection:
            found = connection.execute(
                "SELECT sum(preempted), sum(recomputed_tokens) FROM metering_usagerecord"
                " WHERE business = %s AND received_at >= to_timestamp(%s)",
                (business, since),
            ).fetchone()
        return (int(found[0] or 0), int(found[1] or 0)) if found is not None else (0, 0)

    def activate(self, policy: Policy) -> None:
        """Let the policy be in force from the next start on."""
        path = self.folder / "policy.yaml"
        path.write_text(dump(policy), encoding="utf-8")
        self.manage("policy", "import", str(path), "--activate")


@contextmanager
def installed(upstream: str, cores: Cores) -> Iterator[Installation]:
    """Set Fairlane up before the upstream's URL in a folder that goes away afterwards."""
    fleet = FLEET.format(url=upstream, slots=SLOTS, model=MODEL, business=BUSINESS)
    with furnished(fleet, [BUSINESS], cores) as installation:
        yield installation


@contextmanager
def furnished(fleet: str, businesses: Sequence[str], cores: Cores) -> Iterator[Installation]:
    """Set Fairlane up with a fleet (YAML) and a key for each of these businesses of it."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fairlane-bench-")))
        # As root the database runs as another user, who must be able to pass through.
        folder.chmod(0o711)
        postgres = EmbeddedPostgres(folder / "postgres")
        stack.callback(postgres.stop)
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "console.config.settings",
            "DATABASE_URL": postgres.start(),
            "FAIRLANE_DATA_DIR": str(folder / "data"),
            "LOG_LEVEL": os.environ.get("BENCH_LOG", "WARNING"),
        }
        environment.pop("REDIS_URL", None)
        keys: dict[str, str] = {}
        installation = Installation(folder, environment, keys, cores)
        installation.manage("migrate", "--verbosity", "0")
        path = folder / "fleet.yaml"
        path.write_text(fleet, encoding="utf-8")
        installation.manage("fleet", "apply", str(path))
        for business in businesses:
            keys[business] = installation.manage("key", "create", business).split()[-1]
        yield installation


def _run(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BenchError(f"{' '.join(arguments)}: {done.stderr.strip()[-1000:]}")
    return done.stdout
