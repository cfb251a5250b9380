"""When each member of a crowd has its turn: once in so many seconds, spread evenly over them."""

import asyncio
import heapq
import math
from collections.abc import Callable

# Turns that may have begun a moment ago and not be over. One that takes longer only waits for
# somebody, and keeps no other from its turn.
AT_ONCE = 64
MOMENT_S = 0.25
# Turns are begun so often at most, several together.
GRAIN_S = 0.01
# Its multiples modulo 1 lie evenly, however many there are.
GOLDEN = (math.sqrt(5) - 1) / 2


class Pacer:
    """Calls ``begin`` with a member's number at each of its turns, and is told by ``over`` when
    the turn has ended. Members come and go at any time; a new one has a turn at once. Lives on
    one event loop."""

    def __init__(self, begin: Callable[[int], None], every_s: float) -> None:
        self.every_s = every_s
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[float, int]] = []
        # When each member is due; None while it has its turn.
        self._members: dict[int, float | None] = {}
        # Who had its turn begun a moment ago, and when, the earliest first.
        self._fresh: dict[int, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, number: int) -> None:
        """One more member, or one that is to have a turn at once; its last is given up."""
        self._fresh.pop(number, None)
        self._line_up(number, self._loop.time())

    def drop(self, number: int) -> None:
        """One less, whatever it does."""
        self._members.pop(number, None)
        self._fresh.pop(number, None)

    def over(self, number: int) -> None:
        """The member's turn has ended."""
        self._fresh.pop(number, None)
        if number in self._members:
            self._line_up(number, self._next(number, self._loop.time()))

    def close(self) -> None:
        """Begin no more turns."""
        self._members.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _line_up(self, number: int, due: float) -> None:
        self._members[number] = due
        heapq.heappush(self._due, (due, number))
        if self._timer is None or due < self._timer.when() - GRAIN_S:
            self._wake_at(due)

    def _next(self, number: int, now: float) -> float:
        """The member's own moment of each interval, the next that is to come."""
        phase = number * GOLDEN % 1 * self.every_s
        return phase + self.every_s * (math.floor((now - phase) / self.every_s) + 1)

    def _wake_at(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(max(due, self._loop.time() + GRAIN_S), self._wake)

    def _wake(self) -> None:
        now = self._loop.time()
        self._timer = None
        for number, began in list(self._fresh.items()):
            if began > now - MOMENT_S:
                break
            del self._fresh[number]
        while self._due and self._due[0][0] <= now and len(self._fresh) < AT_ONCE:
            due, number = heapq.heappop(self._due)
            if self._members.get(number) == due:
                self._members[number] = None
                self._fresh[number] = now
                self._begin(number)
        if self._due and self._timer is None:
            self._wake_at(self._due[0][0])
