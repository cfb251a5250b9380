"""Hears of a stop when it is asked for.

The server tells the application only when its last connection has ended. That is too late to
let go of callers who wait, to end streams that would outlast the grace time, and to close
sockets that would stay open for ever.
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def at_stop_signal(begin: Callable[[], Coroutine[object, object, None]]) -> None:
    """Start ``begin()`` on the running loop at the first SIGINT or SIGTERM from now on.

    Whoever handles these signals already still does: the event loop is woken by each signal,
    whatever Python handler there is, and a handler of another kind is called.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    tasks: list[asyncio.Task[None]] = []

    def start() -> None:
        if not tasks:
            tasks.append(loop.create_task(begin(), name="stopping"))

    for number in SIGNALS:
        before = signal.getsignal(number)

        def heard(received: int, frame: FrameType | None, earlier: object = before) -> None:
            loop.call_soon_threadsafe(start)
            if callable(earlier) and earlier is not signal.default_int_handler:
                earlier(received, frame)

        signal.signal(number, heard)
        # As the loop had set it: no system call is to break off for a signal.
        signal.siginterrupt(number, False)


def end_with_parent() -> None:
    """Stop in good order when the process that started this worker dies without a word: its
    successor would share replicas with us, each counting only its own requests."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    loop = asyncio.get_running_loop()

    def died() -> None:
        loop.remove_reader(parent.sentinel)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(parent.sentinel, died)
