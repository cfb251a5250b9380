"""Signals as something to wait for, instead of exceptions in the middle of anything."""

import select
import signal
import socket
import time
from types import FrameType
from typing import Self

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ONE_WISH_S = 0.5


class Signals:
    """While entered: notes wishes to stop, and wakes ``wait`` for them and for ended children.

    ``stopping``: somebody asked for an end. ``impatient``: somebody pressed Ctrl-C again, and
    not in the same moment, since one wish may come in by several ways (a terminal's process
    group, make, a service manager).
    """

    def __init__(self) -> None:
        self.stopping = False
        self.impatient = False
        self._first = 0.0
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)

    def __enter__(self) -> Self:
        self._old_fd = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._old = {
            number: signal.signal(number, self._note) for number in (*STOPS, signal.SIGCHLD)
        }
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._old_fd)
        self._reader.close()
        self._writer.close()

    def wait(self, timeout_s: float) -> None:
        """Return at the next signal, or after ``timeout_s`` seconds."""
        select.select([self._reader], [], [], max(0.0, timeout_s))
        try:
            self._reader.recv(4096)
        except BlockingIOError:
            return

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if number not in STOPS:
            return
        now = time.monotonic()
        if not self.stopping:
            self.stopping = True
            self._first = now
        elif number == signal.SIGINT and now - self._first > ONE_WISH_S:
            self.impatient = True
