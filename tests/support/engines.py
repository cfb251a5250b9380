"""Model servers as processes of their own, on free ports."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from time import monotonic
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
READY_S = 30.0
STOP_S = 10.0


@dataclass(frozen=True)
class EngineProcess:
    """A running server: where it listens, the model name it answers to, and its process."""

    url: str
    model: str
    process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """End it without a chance to say goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_S)


@contextlib.contextmanager
def engine_process(module: str, model: str, *arguments: str) -> Iterator[EngineProcess]:
    """Run ``python -m module`` until the block ends; the last word of its first line of output
    is its address. It must stop on SIGTERM."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, "--port", "0", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        line = _first_line(process.stdout, READY_S)
        yield EngineProcess(line.split()[-1], model, process)
        if process.poll() is None:
            process.terminate()
            assert process.wait(STOP_S) == 0
    finally:
        process.stdout.close()
        if process.poll() is None:
            process.kill()
            process.wait(STOP_S)


def emulator_process(
    *arguments: str, model: str = "org/Model-7B"
) -> contextlib.AbstractContextManager[EngineProcess]:
    """An emulator; ``arguments`` as on its command line, for example ``"--slots", "4"``."""
    return engine_process("scheduler.emulator", model, "--print-port", "--model", model, *arguments)


def llama_process(*arguments: str) -> contextlib.AbstractContextManager[EngineProcess]:
    """The real llama.cpp server with the small real model, two slots unless told otherwise."""
    return engine_process("scheduler.llama", "smollm2", *arguments)


def _first_line(output: IO[bytes], within: float) -> str:
    """Raises AssertionError when the process ends or stays silent."""
    deadline = monotonic() + within
    with DefaultSelector() as selector:
        selector.register(output, EVENT_READ)
        line = b""
        while not line.endswith(b"\n"):
            assert selector.select(max(0.0, deadline - monotonic())), f"no line in {within} s"
            byte = os.read(output.fileno(), 1)
            assert byte, "the server ended before it was ready"
            line += byte
    return line.decode()
