"""Which slot of a llama.cpp server each running request has, and what was saved out of slots.

A server that is told no slot picks one itself; to save a request's state one has to know
where it is. So the slots of such a replica are given out here, to every request, by number.
A number that the server does not have would be taken modulo its slots without a word: what
is saved then is another request's state, which costs time when it is restored, and changes
no answer, for the engine compares the tokens.
"""

import asyncio
import logging
import re
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.core.fleet import ReplicaFacts

log = logging.getLogger(__name__)

# Snapshots of one replica at once, and their bytes; beyond, work is done again instead.
MOST_FILES = 16
MOST_BYTES = 2 * 1024**3
# So many failures in a row, and the server is taken not to save at all.
MOST_FAILURES = 3
# As much of a prompt is remembered to find the slot that holds its beginning.
LEAD_BYTES = 8 * 1024
SAVE_S = 1.0
RESTORE_S = 2.0
# Before one has been saved: a small model's 23 kB are a large model's tenth.
BYTES_PER_TOKEN = 200_000
OTHER = re.compile(r"[^A-Za-z0-9_-]")


class Commands(Protocol):
    """The client that such calls go through."""

    async def command(
        self, facts: ReplicaFacts, path: str, body: dict[str, object], *, within: float
    ) -> dict[str, object] | None:
        """POST JSON, get a JSON object; None for anything else than a 200 within the time."""


@dataclass(eq=False, slots=True)
class Seat:
    """One slot while a request has it; ``request`` is whose state it holds."""

    book: "Book"
    number: int
    request: str = ""
    lead: bytes = b""
    used: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A request's state in a file of the replica it ran on."""

    book: "Book"
    name: str
    tokens: int
    size: int


@dataclass(eq=False)
class Book:
    """The slots of one process of a replica, the free file names, those whose content
    nobody needs any more, and the bytes that are kept."""

    facts: ReplicaFacts
    generation: int
    seats: list[Seat] = field(default_factory=list)
    free: list[Seat] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    bytes_held: int = 0
    failures: int = 0
    bytes_per_token: float = BYTES_PER_TOKEN
    turns: int = 0
    tidying: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        safe = OTHER.sub("_", self.facts.name)
        self.names = [f"fairlane-{safe}-{number}.bin" for number in range(MOST_FILES)]
        self.resize(self.facts)

    def resize(self, facts: ReplicaFacts) -> None:
        """The fleet says how many slots there are now."""
        self.facts = facts
        while len(self.seats) < facts.slots:
            seat = Seat(self, len(self.seats))
            self.seats.append(seat)
            self.free.append(seat)

    def pick(self, request: str, prompt: bytes) -> Seat | None:
        """A free slot: the request's own of before, the one that holds most of the prompt's
        beginning, or the one unused for longest."""
        within = [seat for seat in self.free if seat.number < self.facts.slots]
        if not within:
            return None
        lead = prompt[:LEAD_BYTES]
        found = max(
            within,
            key=lambda s: (s.request == request, _shared(s.lead, lead), -s.used),
        )
        self.free.remove(found)
        self.turns += 1
        found.used = self.turns
        return found


class Slots:
    """The books of all replicas that save slots. Lives on the gateway's loop."""

    def __init__(self, client: Commands) -> None:
        self._client = client
        self._books: dict[str, Book] = {}

    async def take(
        self, facts: ReplicaFacts, generation: int, request: str, prompt: bytes
    ) -> Seat | None:
        """A slot for a request that is about to run there; None where all are given out."""
        book = self._book(facts, generation)
        found = book.pick(request, prompt)
        if found is None and book.tidying is not None:
            await asyncio.wait([book.tidying])
            found = book.pick(request, prompt)
        return found

    def use(self, seat: Seat, request: str, prompt: bytes) -> None:
        """The request goes to its slot now, whose content becomes its own."""
        seat.request, seat.lead = request, prompt[:LEAD_BYTES]

    def give_back(self, seat: Seat) -> None:
        """The request runs there no more."""
        seat.book.free.append(seat)
        self._tidy(seat.book)

    async def save(self, seat: Seat, tokens: int) -> Snapshot | None:
        """Save the slot of a request that was just told to stop, expected to hold ``tokens``
        tokens; the server does it as soon as the slot has stopped. None: not saved."""
        book = seat.book
        expected = round(tokens * book.bytes_per_token)
        if not book.names or book.bytes_held + expected > MOST_BYTES:
            return None
        if book.failures >= MOST_FAILURES:
            return None
        name = book.names.pop()
        book.bytes_held += expected
        done = False
        try:
            answer = await self._call(book, seat.number, "save", name, SAVE_S)
            saved, size = _count(answer, "n_saved"), _count(answer, "n_written")
            if not saved:
                self._failed(book)
                return None
            done, book.failures = True, 0
        finally:
            book.bytes_held -= expected
            if not done:
                book.stale.append(name)
        book.bytes_held += size
        book.bytes_per_token = size / saved
        return Snapshot(book, name, saved, size)

    def _failed(self, book: Book) -> None:
        book.failures += 1
        if book.failures == MOST_FAILURES:
            log.warning(
                "%s saves no slots (is it started with --slot-save-path?);"
                " paused requests are computed again there",
                book.facts.name,
            )

    async def restore(self, seat: Seat, snapshot: Snapshot, request: str) -> bool:
        """Bring a request's state into its new slot. False where it is not to be had, as on
        another replica, or after a restart: then the work is done again."""
        if seat.book is not snapshot.book:
            return False
        if seat.request == request:
            return True  # nobody has used the slot since
        answer = await self._call(seat.book, seat.number, "restore", snapshot.name, RESTORE_S)
        # Whatever was read, it is not what the slot held before.
        seat.request, seat.lead = "", b""
        if _count(answer, "n_restored") != snapshot.tokens:
            log.warning(
                "%s cannot restore a paused request; its work is done again", seat.book.facts.name
            )
            return False
        return True

    def drop(self, snapshot: Snapshot) -> None:
        """Nobody will go on from there: its file is emptied."""
        book = snapshot.book
        book.bytes_held -= snapshot.size
        book.stale.append(snapshot.name)
        self._tidy(book)

    async def close(self) -> None:
        """Finish what is being emptied."""
        tasks = [book.tidying for book in self._books.values() if book.tidying is not None]
        if tasks:
            await asyncio.wait(tasks)

    def _book(self, facts: ReplicaFacts, generation: int) -> Book:
        found = self._books.get(facts.name)
        if found is None or found.generation != generation:
            found = self._books[facts.name] = Book(facts, generation)
        elif found.facts is not facts:
            found.resize(facts)
        return found

    def _tidy(self, book: Book) -> None:
        """Empty files that nobody needs, where a slot is free for it."""
        if not book.stale or book.tidying is not None or not book.free:
            return
        if book.failures >= MOST_FAILURES:
            return
        if self._books.get(book.facts.name) is not book:
            return  # the process is gone; its folder is cleaned when it starts
        seat = min(book.free, key=lambda s: s.used)
        book.free.remove(seat)
        book.tidying = asyncio.get_running_loop().create_task(self._empty(book, seat))

    async def _empty(self, book: Book, seat: Seat) -> None:
        """There is no call to remove a file, but saving an empty slot leaves 40 bytes of it."""
        try:
            seat.request, seat.lead = "", b""
            path = f"/slots/{seat.number}?action=erase"
            await self._client.command(book.facts, path, {}, within=SAVE_S)
            while book.stale:
                name = book.stale.pop()
                await self._call(book, seat.number, "save", name, SAVE_S)
                book.names.append(name)
        finally:
            book.tidying = None
            book.free.append(seat)

    async def _call(
        self, book: Book, number: int, action: str, name: str, within: float
    ) -> dict[str, object] | None:
        path = f"/slots/{number}?action={action}"
        return await self._client.command(book.facts, path, {"filename": name}, within=within)


def _shared(one: bytes, other: bytes) -> int:
    """How many bytes two texts have in common from their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _count(answer: dict[str, object] | None, name: str) -> int:
    value = None if answer is None else answer.get(name)
    return value if isinstance(value, int) and value > 0 else 0
