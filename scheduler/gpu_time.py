"""The replicas' GPU time: shares for the requests that ran, and hours for the books."""

import asyncio
import logging
from dataclasses import dataclass
from uuid import UUID, uuid4

from metering.core.gpu import MICRO, GpuMeter, Hour

from .clock import ahead
from .ports import Books, Clock, GpuHours

log = logging.getLogger(__name__)

FLUSH_S = 10.0
# What the wall clock is set back by less than this is no matter of hours.
SET_BACK = 1_000_000_000


@dataclass(slots=True)
class Seat:
    """One attempt's place at a replica's meter."""

    meter: GpuMeter
    mark: int


class GpuTime:
    """Meters by replica and generation. Belongs to one event loop.

    Hours are written over and over as they grow, each time in full: a write that is repeated,
    or was lost, changes nothing. ``kill -9`` costs the books ten seconds of them at most.

    Measured is by the clock's own time; the wall clock only says which hour it is. Set back, it
    comes to hours that were written for good already: what is measured from then on is written
    under another name, beside that.
    """

    def __init__(self, clock: Clock, books: Books) -> None:
        self._clock = clock
        self._books = books
        self._meters: dict[tuple[str, int], GpuMeter] = {}
        self._hours: dict[tuple[UUID, str, int], Hour] = {}
        self._writer = uuid4()
        self._ahead = ahead(clock)
        self._reachable = True

    def known(self, name: str, generation: int, gpus: float) -> None:
        """The replica is there, in this generation and no other."""
        now = self._clock.now()
        for key, meter in self._meters.items():
            if key[0] == name and key[1] != generation and meter.known:
                meter.change(meter.gpus, now, known=False)
        found = self._meters.get((name, generation))
        if found is None:
            self._meters[name, generation] = self._meter(gpus, now)
        elif found.gpus != gpus or not found.known:
            found.change(gpus, now)

    def gone(self, name: str) -> None:
        """The replica has left the fleet."""
        now = self._clock.now()
        for key, meter in self._meters.items():
            if key[0] == name:
                meter.change(meter.gpus, now, known=False)

    def sit(self, name: str, generation: int, gpus: float, now: int) -> Seat:
        """An attempt starts."""
        meter = self._meters.get((name, generation))
        if meter is None:
            meter = self._meters[name, generation] = self._meter(gpus, now)
        return Seat(meter, meter.join(now))

    def rise(self, seat: Seat) -> float:
        """It has ended; returns its share in GPU-seconds."""
        return seat.meter.leave(seat.mark, self._clock.now())

    async def run(self) -> None:
        """Write the hours every few seconds, until cancelled."""
        while True:
            await asyncio.sleep(FLUSH_S)
            await self.flush()

    async def flush(self) -> None:
        """Write the hours as they stand. While that cannot be done they are kept."""
        now = self._clock.now()
        self._gather(now)
        rows = [
            GpuHours(writer, replica, hour, found.wall // MICRO, found.busy // MICRO)
            for (writer, replica, hour), found in self._hours.items()
        ]
        if not rows:
            return
        try:
            await asyncio.to_thread(self._books.gpu_hours, rows)
        except OSError as error:
            if self._reachable:
                log.warning("hours of GPU time wait to be written: %s", error)
            self._reachable = False
            return
        self._reachable = True
        present = (now + self._ahead) // 3_600_000_000_000 * 3600
        for row in rows:
            # What is over was written for good.
            if row.hour < present - 3600 or row.writer != self._writer:
                self._hours.pop((row.writer, row.replica, row.hour), None)

    def _meter(self, gpus: float, now: int) -> GpuMeter:
        return GpuMeter(gpus, now, ahead=self._ahead)

    def _gather(self, now: int) -> None:
        """Take what was measured since the last time, and follow the wall clock from here on."""
        writer, before = self._writer, self._ahead
        self._ahead = ahead(self._clock)
        if self._ahead < before - SET_BACK:
            self._writer = uuid4()
        for key, meter in list(self._meters.items()):
            for begin, measured in meter.take(now).items():
                held = self._hours.setdefault((writer, key[0], begin), Hour())
                held.wall += measured.wall
                held.busy += measured.busy
            meter.ahead = self._ahead
            if not meter.known and not meter.running:
                del self._meters[key]
