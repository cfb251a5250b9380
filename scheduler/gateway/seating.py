"""One request's place on a replica whose slots are given out here, and what was saved there."""

from scheduler.calls import Placed
from scheduler.engines import Engine

from .payload import Payload
from .slots import Seat, Slots, Snapshot


class Seating:
    """At most one slot and one snapshot at a time. Engines without slots are no matter."""

    __slots__ = ("_request", "_seat", "_slots", "_snapshot")

    def __init__(self, slots: Slots, request: str) -> None:
        self._slots = slots
        self._request = request
        self._seat: Seat | None = None
        self._snapshot: Snapshot | None = None

    async def sit(self, placed: Placed, adapter: Engine, payload: Payload) -> int | None:
        """Take a slot and bring back what was saved; the slot's number, None where the engine
        is to choose."""
        if not adapter.saves_slots:
            self.drop()
            return None
        prompt = bytes(payload.fields.get("messages") or payload.fields.get("prompt") or b"")
        seat = await self._slots.take(placed.facts, placed.generation, self._request, prompt)
        if seat is None:
            self.drop()
            return None
        self._seat = seat
        if self._snapshot is not None:
            await self._slots.restore(seat, self._snapshot, self._request)
            self.drop()
        self._slots.use(seat, self._request, prompt)
        return seat.number

    async def save(self, tokens: int) -> bool:
        """Keep the state of the attempt that was just stopped, about ``tokens`` tokens."""
        if self._snapshot is not None:
            return True  # stopped before it was brought back
        if self._seat is None or self._seat.request != self._request:
            return False
        self._snapshot = await self._slots.save(self._seat, tokens)
        return self._snapshot is not None

    def leave(self) -> None:
        """Nothing of the request runs there any more."""
        if self._seat is not None:
            seat, self._seat = self._seat, None
            self._slots.give_back(seat)

    def drop(self) -> None:
        """What was saved is not needed any more."""
        if self._snapshot is not None:
            snapshot, self._snapshot = self._snapshot, None
            self._slots.drop(snapshot)
