"""The thread that hears publishers. It works a small share of the time, whatever they send:
Python runs one thread at a time, and the other one carries requests."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

import zmq

from .ear import Context, Ear

log = logging.getLogger(__name__)

ROUND_S = 0.05
# It works so long at once, about what a few requests take, and where that was not enough rests so
# many times as long: a sixteenth of the time at most, for some 2,000 batches a second.
WORK_S = 0.0005
REST_PER_WORK = 15.0


class Listener:
    """``tell`` is called in the thread, with a replica's name and the tokens that have left its
    cache, None for all of them."""

    def __init__(self, tell: Callable[[str, int | None], None]) -> None:
        self._tell = tell
        self._wanted: Mapping[str, str] = {}
        self._ears: dict[str, Ear] = {}
        self._next = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def listen(self, places: Mapping[str, str]) -> None:
        """Hear these publishers (ZeroMQ endpoint by replica, empty while it has none) and no
        others. The thread begins with the first."""
        self._wanted = dict(places)
        if places and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="KV cache events", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End the thread; returns when it has ended."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        context: Context = zmq.Context()
        try:
            pause = 0.0
            while not self._stop.wait(pause):
                began = time.thread_time()
                heard_all = self._round(context, began + WORK_S)
                rest = (time.thread_time() - began) * REST_PER_WORK
                pause = max(ROUND_S, rest) if heard_all else rest
        except Exception:  # nobody waits for this thread, so that its end must be heard of here
            log.critical("KV cache events are heard no more", exc_info=True)
        finally:
            for ear in self._ears.values():
                ear.close()
            context.destroy(linger=0)

    def _round(self, context: Context, until: float) -> bool:
        """Each in turn, beginning where the last round's time was up; whether it was not."""
        wanted = self._wanted
        for name in self._ears.keys() - wanted.keys():
            self._ears.pop(name).close()
        names, now = list(wanted), time.monotonic()
        for _ in names:
            name = names[self._next % len(names)]
            self._next += 1
            ear = self._ears.setdefault(name, Ear(name))
            ear.attend(context, wanted[name], now)
            heard_all = ear.hear(until)
            ear.tell(now, self._tell)
            if not heard_all:
                return False
        return True
