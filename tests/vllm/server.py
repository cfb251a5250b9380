"""A real vLLM on the CPU, as a process of its own."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

# The first start compiles and measures; a busy machine takes its time.
READY_S = 300.0
STOP_S = 30.0
MODEL = "smollm2"
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
ARGUMENTS = (
    *("--served-model-name", MODEL, "--host", "127.0.0.1", "--dtype", "float32"),
    *("--block-size", "32", "--max-model-len", "2048", "--max-num-seqs", "4"),
    *("--scheduling-policy", "priority", "--enforce-eager", "--enable-prompt-tokens-details"),
)


@dataclass(frozen=True)
class VllmServer:
    """Where it listens, and what it says of itself."""

    url: str

    def figure(self, name: str) -> float:
        """The sum of a metric over its label sets. 0 where there is none."""
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        lines = [line for line in page.splitlines() if line.startswith((f"{name}{{", f"{name} "))]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def forget(self) -> None:
        """Empty its prefix cache."""
        httpx.post(f"{self.url}/reset_prefix_cache", trust_env=False).raise_for_status()


@contextlib.contextmanager
def vllm_server(home: Path) -> Iterator[VllmServer]:
    """Run vLLM out of ``home``, an environment with a ``model`` folder, until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = home / "server.log"
    command = [home / "bin" / "vllm", "serve", home / "model", "--port", str(port), *ARGUMENTS]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **OFFLINE},
            start_new_session=True,
        )
    try:
        server = VllmServer(f"http://127.0.0.1:{port}")
        _wait(server.url, process, log)
        yield server
    finally:
        # Its engine is a child of its own: both are one session.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STOP_S)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Raises AssertionError when it ends or is not ready in time."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-2000:]
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", trust_env=False).status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError(f"vLLM was not ready in {READY_S} s; see {log}")
