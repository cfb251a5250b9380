"""Who is measured: nothing at all, nginx, the bare proxy, Fairlane, and others by name."""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from .bare import UPSTREAM
from .installation import installed
from .litellm import litellm
from .machine import BenchError, Cores
from .process import Server, free_port
from .upstream import Upstream, proxy

NO_KEY = "fl_live_none"


@dataclass(frozen=True, slots=True)
class Peer:
    """One way to the upstream. ``server`` None: straight there, with nothing between."""

    name: str
    port: int
    key: str
    server: Server | None

    @property
    def url(self) -> str:
        """Where to send requests."""
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def peers(folder: Path, upstream: Upstream, cores: Cores) -> Iterator[list[Peer]]:
    """All peers, each ready before the next starts; BENCH_PEERS names further ones."""
    with ExitStack() as stack:
        found = [Peer("direct", upstream.port, NO_KEY, None)]
        server, port = proxy(folder, cores, upstream.port)
        stack.callback(server.stop)
        server.ready(f"http://127.0.0.1:{port}/health")
        found.append(Peer("nginx", port, NO_KEY, server))
        found.append(_bare(stack, folder, upstream, cores))
        installation = stack.enter_context(installed(upstream.url, cores))
        server, port = stack.enter_context(installation.serving("gateway"))
        found.append(Peer("fairlane", port, installation.key, server))
        for name in os.environ.get("BENCH_PEERS", "").replace(",", " ").split():
            if name != "litellm":
                raise BenchError(f"BENCH_PEERS: {name!r} is not known, only litellm")
            server, port, key = litellm(folder, upstream, cores)
            stack.callback(server.stop)
            server.ready(f"http://127.0.0.1:{port}/health/liveliness")
            found.append(Peer(name, port, key, server))
        yield found


def _bare(stack: ExitStack, folder: Path, upstream: Upstream, cores: Cores) -> Peer:
    port = free_port()
    server = Server(
        "bare",
        [sys.executable, "-m", "bench.bare", "--port", str(port)],
        core=cores.gateway,
        env={**os.environ, UPSTREAM: upstream.url},
        folder=folder,
    )
    stack.callback(server.stop)
    server.ready(f"http://127.0.0.1:{port}/health")
    return Peer("bare", port, NO_KEY, server)
