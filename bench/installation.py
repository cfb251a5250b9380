"""Fairlane as people install it: its own Postgres, its own commands, a folder to itself."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from console.embedded_postgres import EmbeddedPostgres

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
    """One data folder and database with a fleet of one replica, and a key."""

    folder: Path
    environment: dict[str, str]
    key: str
    cores: Cores

    @contextmanager
    def serving(self, role: str) -> Iterator[tuple[Server, int]]:
        """``manage.py serve`` in this role on the gateway's core; the server and its port."""
        port = free_port()
        server = Server(
            "fairlane",
            [sys.executable, "manage.py", "serve", "--role", role, "--port", str(port)],
            core=self.cores.gateway,
            env=self.environment,
            folder=self.folder,
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


@contextmanager
def installed(upstream: str, cores: Cores) -> Iterator[Installation]:
    """Set Fairlane up before the upstream's URL in a folder that goes away afterwards."""
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
            "LOG_LEVEL": "WARNING",
        }
        environment.pop("REDIS_URL", None)
        _run(["manage.py", "migrate", "--verbosity", "0"], environment)
        fleet = folder / "fleet.yaml"
        fleet.write_text(
            FLEET.format(url=upstream, slots=SLOTS, model=MODEL, business=BUSINESS),
            encoding="utf-8",
        )
        _run(["manage.py", "fleet", "apply", str(fleet)], environment)
        key = _run(["manage.py", "key", "create", BUSINESS], environment).split()[-1]
        yield Installation(folder, environment, key, cores)


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
