"""smg's router as a peer: calls go where the beginning of their prompt is cached."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .process import Server, free_port
from .venv import installed

REQUIREMENTS = "requirements-smg.in"


@contextmanager
def routing(urls: Sequence[str], folder: Path, core: int) -> Iterator[tuple[Server, int]]:
    """It before these model servers, with policy ``cache_aware`` and its own defaults else, until
    the block ends."""
    program = installed("smg", "smg", "--requirement", REQUIREMENTS)
    port, metrics = free_port(), free_port()
    options = {
        "host": "127.0.0.1",
        "port": port,
        "policy": "cache_aware",
        "log-level": "error",
        "prometheus-host": "127.0.0.1",
        "prometheus-port": metrics,
    }
    command = [str(program), "launch"]
    for name, value in options.items():
        command += [f"--{name}", str(value)]
    command += ["--worker-urls", *urls]
    server = Server("smg", command, core=core, env=os.environ, folder=folder)
    try:
        server.ready(f"http://127.0.0.1:{port}/readiness")
        yield server, port
    finally:
        server.stop()
