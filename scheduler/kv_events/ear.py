"""One replica's subscription: a socket, and what was heard through it and those before it."""

import logging
import time
from collections.abc import Callable

import zmq
from zmq.constants import Event, SocketOption

from .tally import Tally

log = logging.getLogger(__name__)

TELL_EVERY_S = 0.25
MOST_MESSAGE_BYTES = 4 * 1024 * 1024
# Messages held here; the rest waits at the publisher, which holds many more.
MOST_HELD = 16
CONNECT_MS = 5000
# Between two connections; each in a row that nothing was heard through doubles it.
AGAIN_S, AGAIN_MOST_S = 0.5, 15.0
# ZeroMQ connects anew by itself, but not to who has sent what it may not: a message that is too
# long, or something else than ZeroMQ. Here it never does, so that there is one way.
NEVER = -1
OVER = Event.DISCONNECTED | Event.CLOSED
OPTIONS: dict[SocketOption, int | bytes] = {
    SocketOption.LINGER: 0,
    SocketOption.IPV6: 1,
    SocketOption.RCVHWM: MOST_HELD,
    SocketOption.MAXMSGSIZE: MOST_MESSAGE_BYTES,
    SocketOption.CONNECT_TIMEOUT: CONNECT_MS,
    SocketOption.RECONNECT_IVL: NEVER,
    SocketOption.TCP_KEEPALIVE: 1,
    SocketOption.SUBSCRIBE: b"",
}
Context = zmq.Context[zmq.Socket[bytes]]


class Ear:
    """The tally outlives connections: the next batch's number tells whether anything was missed.
    Times are monotonic seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.place = ""
        self._socket: zmq.Socket[bytes] | None = None
        self._events: zmq.Socket[bytes] | None = None
        self._tally = Tally()
        self._troubled = False
        self._told_at = 0.0
        self._again_s = AGAIN_S
        self._look_at = 0.0

    def attend(self, context: Context, place: str, now: float) -> None:
        """Listen at this endpoint from now on, nowhere if it is empty; connect anew if the
        connection is over."""
        if place != self.place:
            self.place, self._again_s = place, AGAIN_S
        elif self._events is None or now < self._look_at or not self._over(self._events):
            return
        self.close()
        self._look_at = now + self._again_s
        self._again_s = min(2 * self._again_s, AGAIN_MOST_S)
        if place:
            self._open(context)

    def _open(self, context: Context) -> None:
        socket = context.socket(zmq.SUB)
        for option, value in OPTIONS.items():
            socket.setsockopt(option, value)
        self._events = socket.get_monitor_socket(OVER)
        socket.connect(self.place)
        self._socket = socket

    @staticmethod
    def _over(events: zmq.Socket[bytes]) -> bool:
        try:
            events.recv_multipart(zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def close(self) -> None:
        """Hear nothing more."""
        if self._socket is not None:
            self._socket.disable_monitor()
            self._socket.close()
        if self._events is not None:
            self._events.close()
        self._socket = self._events = None

    def hear(self, until: float) -> bool:
        """Take what has come; False where some may be left when the thread has worked ``until``
        (seconds of its own time: one that gets no turn has done nothing)."""
        socket = self._socket
        if socket is None:
            return True
        while time.thread_time() < until:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return True
            self._tally.add(frames)
            problem = self._tally.problem
            if problem and not self._troubled:
                log.warning("KV cache events of replica %s cannot be read: %s", self.name, problem)
            self._troubled = bool(problem)
            if not problem:
                self._again_s = AGAIN_S
        return False

    def tell(self, now: float, tell: Callable[[str, int | None], None]) -> None:
        """Pass on what has been counted, every ``TELL_EVERY_S`` at most."""
        if now - self._told_at < TELL_EVERY_S:
            return
        anything, evicted = self._tally.take()
        if anything:
            self._told_at = now
            tell(self.name, evicted)
