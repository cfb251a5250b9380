"""The same promises behind the real server: what it holds of a reader that stopped reading,
and of a thousand that vanished."""

import asyncio
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import websockets

ROOT = Path(__file__).resolve().parents[2]
START_S = 60.0
SOON = 30.0
MIB = 1024 * 1024

pytestmark = pytest.mark.timeout(180)


@dataclass
class Server:
    port: int

    def figures(self) -> dict[str, int]:
        found = httpx.get(f"http://127.0.0.1:{self.port}/", timeout=SOON).json()
        assert isinstance(found, dict)
        return found

    def handshake(self, *, window: int | None = None) -> socket.socket:
        """A socket that has sent a correct handshake, with a receive buffer of that size."""
        peer = socket.socket()
        if window is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        peer.settimeout(SOON)
        peer.connect(("127.0.0.1", self.port))
        host = f"127.0.0.1:{self.port}"
        lines = (
            "GET /ws/live/ HTTP/1.1",
            f"Host: {host}",
            f"Origin: http://{host}",
            "Cookie: sessionid=x",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
            "Sec-WebSocket-Version: 13",
        )
        peer.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return peer


def until(true: Callable[[], bool], within_s: float = SOON) -> None:
    end = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    found = Server(port)
    command = ["-m", "granian", "--interface", "asgi", "--ws", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, *command, "tests.console.live_server:application"],
        cwd=ROOT,
        env={**os.environ, "LOG_FORMAT": "console"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers() -> bool:
        assert process.poll() is None, "the server ended"
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        until(answers, START_S)
        yield found
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(SOON)


async def test_a_reader_that_stops_is_dropped_while_others_read_on(server: Server) -> None:
    origin = f"http://127.0.0.1:{server.port}"
    stuck = server.handshake(window=4_096)
    assert stuck.recv(64).startswith(b"HTTP/1.1 101")

    async def read_on(sums: list[int]) -> None:
        address = f"{origin.replace('http', 'ws', 1)}/ws/live/"
        cookie = {"Cookie": "sessionid=x"}
        async with websockets.connect(
            address, origin=websockets.Origin(origin), additional_headers=cookie, max_size=None
        ) as reader:
            async for _message in reader:
                sums[0] += 1

    counts = [[0] for _ in range(5)]
    readers = [asyncio.create_task(read_on(sums)) for sums in counts]
    try:
        await asyncio.to_thread(until, lambda: all(sums[0] > 20 for sums in counts))
        before = await asyncio.to_thread(server.figures)
        assert before["viewers"] == 6
        await asyncio.to_thread(until, lambda: server.figures()["viewers"] == 5, 90)
        at_drop = [sums[0] for sums in counts]
        await asyncio.to_thread(
            until, lambda: all(n[0] > m + 20 for n, m in zip(counts, at_drop, strict=True))
        )
        after = await asyncio.to_thread(server.figures)
        assert after["resident"] - before["resident"] < 16 * MIB
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        stuck.close()
    await asyncio.to_thread(until, lambda: server.figures()["viewers"] == 0)


def test_a_thousand_connections_that_vanish_leave_nothing(server: Server) -> None:
    def cycle(number: int) -> None:
        peer = server.handshake()
        if number % 4:
            assert peer.recv(16).startswith(b"HTTP/1.1 101")
        if number % 2:
            # A reset instead of a goodbye.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        peer.close()

    for number in range(200):
        cycle(number)
    until(lambda: server.figures()["viewers"] == 0)
    before = server.figures()
    for number in range(1_000):
        cycle(number)
    until(lambda: server.figures()["viewers"] == 0)
    until(lambda: server.figures()["tasks"] <= before["tasks"])
    assert server.figures()["resident"] - before["resident"] < 16 * MIB
