"""The command: what it says, and that several cards share one small machine."""

import asyncio
import contextlib
import subprocess
import sys
from time import monotonic

import httpx
import pytest

from scheduler.emulator.answers import expected_text
from scheduler.emulator.settings import parse_command
from tests.support.engines import ROOT, EngineProcess, emulator_process

from .servers import CHAT, PROMPT, chat


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler.emulator", *arguments]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=20, check=False
    )


def test_it_answers_with_the_known_text(emulator_server: EngineProcess) -> None:
    body = chat(max_tokens=4)
    answer = httpx.post(f"{emulator_server.url}{CHAT}", json=body, timeout=10)
    assert answer.json()["choices"][0]["message"]["content"] == expected_text(PROMPT, 4)


def test_an_address_in_use_is_one_line(emulator_server: EngineProcess) -> None:
    ended = run("--port", emulator_server.url.rpartition(":")[2])
    assert ended.returncode == 1
    assert ended.stderr.startswith("scheduler.emulator: cannot listen: ")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--slots", "0"], "must be a whole number of at least 1"),
        (["--speed", "0"], "must be more than 0"),
        (["--kv-tokens", "100"], "kv-tokens (100) must hold one request of max-model-len (8192)"),
    ],
)
def test_a_card_that_could_not_work_is_refused(arguments: list[str], text: str) -> None:
    ended = run(*arguments)
    assert ended.returncode == 2
    assert text in ended.stderr


def test_the_command_line_becomes_the_card() -> None:
    command = parse_command(
        [
            *("--port", "0", "--model", "a/b", "--model", "c", "--slots", "3"),
            *("--kv-tokens", "9000", "--max-model-len", "4096", "--speed", "2", "--seed", "4"),
            *("--prefill-tokens-per-s", "800", "--step-base-ms", "10"),
            *("--step-per-running-ms", "1", "--scheduling-policy", "priority"),
            "--no-enable-prompt-tokens-details",
        ]
    )
    settings, service = command.settings, command.settings.service
    assert (command.host, command.port, command.print_port) == ("127.0.0.1", 0, False)
    assert settings.models == ("a/b", "c")
    assert (settings.max_model_len, settings.details) == (4096, False)
    assert (service.slots, service.kv_tokens, service.seed) == (3, 9000, 4)
    assert (service.prefill_tokens_per_s, service.step_base_ms) == (1600, 5)
    assert service.step_per_running_ms == 0.5
    assert service.by_priority


def test_the_banner_says_that_there_is_no_model() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "scheduler.emulator", "--port", "0"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = [process.stderr.readline() for _ in range(3)]
        process.terminate()
        assert process.wait(10) == 0
    assert lines[0].startswith("Fairlane emulator: NOT a model server.")
    assert lines[2].startswith("listening on http://127.0.0.1:")


async def test_streams_keep_the_pace_of_the_card() -> None:
    """Sixteen streams of a hundred steps of 11 + 16 x 0.55 = 19.8 ms."""
    with emulator_process("--slots", "16") as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
            body = chat(stream=True, max_tokens=101, ignore_eos=True)

            async def one() -> tuple[float, float]:
                async with client.stream("POST", CHAT, json=body) as response:
                    times = [monotonic() async for _ in response.aiter_bytes()]
                return times[0], times[-1]

            spans = await asyncio.gather(*(one() for _ in range(16)))
    # Not faster than the card, and all at once.
    assert all(last - first >= 1.9 for first, last in spans)
    assert max(first for first, _ in spans) < min(last for _, last in spans)


def test_an_open_stream_does_not_hold_the_stop() -> None:
    with emulator_process() as server, contextlib.ExitStack() as stack:
        client = stack.enter_context(httpx.Client(timeout=20))
        body = chat(stream=True, max_tokens=8000, ignore_eos=True)
        response = stack.enter_context(client.stream("POST", server.url + CHAT, json=body))
        pieces = response.iter_bytes()
        assert next(pieces)
        server.process.terminate()
        assert server.process.wait(60) == 0
        with contextlib.suppress(httpx.HTTPError):
            assert b"[DONE]" not in b"".join(pieces)
