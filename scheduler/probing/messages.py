"""What the two processes tell each other: JSON values, one a line, over one socket.

Each thing that is probed or read has a number, given once and never again: what is told of one
that was dropped meanwhile concerns nobody.
"""

import asyncio
from collections.abc import Callable
from enum import Enum

import msgspec

from scheduler.readings import Reading


class Verdict(Enum):
    """What a probe has found."""

    WELL = "well"
    UNWELL = "unwell"  # it says that it is not ready, or answers no HTTP
    GONE = "gone"  # nobody listens there
    SILENT = "silent"  # no answer in time


class Order(msgspec.Struct, omit_defaults=True):
    """What is to be done from now on. All else stays as it was.

    ``networks``: where connections may lead. ``probe``: URLs that say how a replica is, by
    number. ``read``: pages of metrics, and the name of their engine. ``hurry``: numbers to be
    probed at once. The last two are seconds, of ``policy.Placement``.
    """

    networks: tuple[str, ...] | None = None
    probe: dict[int, str] = {}
    read: dict[int, tuple[tuple[str, ...], str]] = {}
    drop: list[int] = []
    hurry: list[int] = []
    metrics_every_s: float | None = None
    metrics_window_s: float | None = None


class Found(msgspec.Struct, array_like=True):
    """A probe's verdict, when the question was sent (monotonic seconds), and its reason in
    words."""

    number: int
    verdict: Verdict
    asked: float
    why: str


class Figures(msgspec.Struct, array_like=True):
    """The means of what a replica's pages have said lately, and why one of them could not be
    read this time."""

    number: int
    mean: Reading
    problem: str


class Report(msgspec.Struct, array_like=True):
    """What was found since the last report. ``faults`` are this process's own."""

    found: list[Found] = []
    figures: list[Figures] = []
    faults: list[str] = []


read_order = msgspec.json.Decoder(Order).decode
read_report = msgspec.json.Decoder(Report).decode
_encode = msgspec.json.Encoder().encode


class Lines(asyncio.Protocol):
    """One end of the socket. ``hear`` gets each line; ``closed`` is set when there is no other
    end any more."""

    def __init__(self, hear: Callable[[bytes], None]) -> None:
        self.closed = asyncio.Event()
        self._hear = hear
        self._rest: list[bytes] = []
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        *whole, rest = data.split(b"\n")
        for line in whole:
            self._rest.append(line)
            self._hear(b"".join(self._rest))
            self._rest.clear()
        if rest:
            self._rest.append(rest)

    def send(self, message: Order | Report) -> None:
        """Write a line, whenever the other end reads it."""
        if self._transport is not None and not self.closed.is_set():
            self._transport.write(_encode(message) + b"\n")

    @property
    def unread(self) -> int:
        """Bytes written that the other end has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Let go of the socket, read or not."""
        if self._transport is not None:
            self._transport.abort()
