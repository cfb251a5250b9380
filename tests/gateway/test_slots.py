"""Which slot a request gets on llama.cpp, and what becomes of saved ones."""

import asyncio
from collections.abc import Callable

import pytest

from scheduler.core.fleet import ReplicaFacts
from scheduler.gateway.slots import MOST_BYTES, MOST_FILES, Seat, Slots, Snapshot

Answer = dict[str, object] | None


class Server:
    """A llama.cpp server's slot calls: its files by name, as numbers of tokens."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.held: dict[str, int] = {}
        self.calls: list[str] = []
        self.size = 1000
        self.answer: Callable[[str], Answer] | None = None

    async def command(
        self, facts: ReplicaFacts, path: str, body: dict[str, object], *, within: float
    ) -> Answer:
        await asyncio.sleep(0)
        number, action = path.removeprefix("/slots/").split("?action=")
        self.calls.append(f"{action} {number}")
        if self.answer is not None:
            return self.answer(action)
        if action == "erase":
            self.held[number] = 0
            return {"n_erased": 1}
        name = str(body["filename"])
        if action == "save":
            # Whoever has the slot next fills it.
            tokens = self.held.pop(number, 100)
            self.files[name] = tokens
            return {"n_saved": tokens, "n_written": tokens * self.size}
        if name not in self.files:
            return None
        self.held[number] = self.files[name]
        return {"n_restored": self.files[name]}


def facts(slots: int = 2, name: str = "r1") -> ReplicaFacts:
    return ReplicaFacts(name, "http://127.0.0.1:1", "llamacpp", "pool", slots)


async def seated(slots: Slots, where: ReplicaFacts, request: str, prompt: bytes = b"") -> Seat:
    seat = await slots.take(where, 1, request, prompt)
    assert seat is not None
    slots.use(seat, request, prompt)
    return seat


async def saved(slots: Slots, where: ReplicaFacts, request: str) -> Snapshot:
    seat = await seated(slots, where, request)
    found = await slots.save(seat, 100)
    assert found is not None
    slots.give_back(seat)
    return found


async def test_slots_are_numbered_from_nought_and_given_once() -> None:
    slots, where = Slots(Server()), facts(3)
    seats = [await seated(slots, where, f"q{n}") for n in range(3)]
    assert sorted(seat.number for seat in seats) == [0, 1, 2]
    assert await slots.take(where, 1, "q3", b"") is None
    slots.give_back(seats[1])
    again = await slots.take(where, 1, "q4", b"")
    assert again is seats[1]


async def test_a_fleet_of_fewer_slots_leaves_the_upper_ones_alone() -> None:
    slots = Slots(Server())
    for seat in [await seated(slots, facts(3), f"q{n}") for n in range(3)]:
        slots.give_back(seat)
    fewer = facts(1)
    seat = await seated(slots, fewer, "q")
    assert seat.number == 0
    assert await slots.take(fewer, 1, "q2", b"") is None


async def test_a_prompt_goes_where_its_beginning_is() -> None:
    slots, where = Slots(Server()), facts(3)
    first = [await seated(slots, where, f"q{n}", b"prompt %d" % n) for n in range(3)]
    for seat in first:
        slots.give_back(seat)
    assert (await seated(slots, where, "other", b"prompt 1 goes on")).number == first[1].number
    # Nothing in common: the slot unused for longest.
    assert (await seated(slots, where, "new", b"new")).number == first[0].number


async def test_a_new_process_begins_with_empty_slots() -> None:
    server = Server()
    slots, where = Slots(server), facts(1)
    snapshot = await saved(slots, where, "q")
    seat = await slots.take(where, 2, "q", b"")
    assert seat is not None
    assert not await slots.restore(seat, snapshot, "q")
    assert server.calls == ["save 0"]
    slots.drop(snapshot)  # its folder is not this process's any more
    assert server.calls == ["save 0"]


async def test_an_untouched_slot_needs_no_restoring() -> None:
    server = Server()
    slots, where = Slots(server), facts(2)
    snapshot = await saved(slots, where, "q")
    seat = await slots.take(where, 1, "q", b"")
    assert seat is not None
    assert await slots.restore(seat, snapshot, "q")
    assert server.calls == ["save 0"]


async def test_a_used_slot_is_restored_and_the_file_emptied() -> None:
    server = Server()
    slots, where = Slots(server), facts(2)
    snapshot = await saved(slots, where, "q")
    others = [await seated(slots, where, name) for name in ("a", "b")]
    slots.give_back(others[1])
    seat = await slots.take(where, 1, "q", b"")
    assert seat is not None
    assert await slots.restore(seat, snapshot, "q")
    slots.drop(snapshot)
    assert server.files == {snapshot.name: 100}  # no slot is free for it yet
    slots.give_back(others[0])
    await slots.close()
    assert server.files == {snapshot.name: 0}
    assert snapshot.book.bytes_held == 0
    assert len(snapshot.book.names) == MOST_FILES


async def test_who_comes_while_files_are_emptied_waits_for_the_slot() -> None:
    server = Server()
    slots, where = Slots(server), facts(1)
    slots.drop(await saved(slots, where, "q"))
    seat = await slots.take(where, 1, "next", b"")
    assert seat is not None
    assert server.calls == ["save 0", "erase 0", "save 0"]


async def test_missing_corrupt_and_empty_snapshots_are_no_snapshots() -> None:
    server = Server()
    slots, where = Slots(server), facts(1)
    answers: list[Answer] = [None, {"n_restored": 0}, {"n_restored": 7}, {}, {"n_restored": "x"}]
    for answer in answers:
        server.answer = None
        snapshot = await saved(slots, where, "q")
        slots.give_back(await seated(slots, where, "urgent"))
        seat = await slots.take(where, 1, "q", b"")
        assert seat is not None
        server.answer = lambda action, answer=answer: answer
        assert not await slots.restore(seat, snapshot, "q")
        server.answer = None
        slots.give_back(seat)
        slots.drop(snapshot)
        await slots.close()
        assert len(snapshot.book.names) == MOST_FILES


async def test_what_could_not_be_saved_leaves_no_name_in_use() -> None:
    server = Server()
    slots, where = Slots(server), facts(1)
    seat = await seated(slots, where, "q")
    for answer in (None, {"n_saved": 0, "n_written": 40}):
        server.answer = lambda action, answer=answer: answer
        assert await slots.save(seat, 100) is None
    server.answer = None
    slots.give_back(seat)
    await slots.close()
    assert (len(seat.book.names), seat.book.bytes_held) == (MOST_FILES, 0)


async def test_a_server_that_saves_nothing_is_left_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Started without a folder for slots: it is asked three times, and told about once."""
    server = Server()
    server.answer = lambda action: None
    slots, where = Slots(server), facts(1)
    asked = []
    for number in range(6):
        seat = await seated(slots, where, f"q{number}")
        assert await slots.save(seat, 100) is None
        slots.give_back(seat)
        await slots.close()
        asked.append(len(server.calls))
    assert asked[1] < asked[2] == asked[5]
    assert [r.levelname for r in caplog.records] == ["WARNING"]


async def test_snapshots_are_bounded_in_number() -> None:
    slots, where = Slots(Server()), facts(1)
    kept = [await saved(slots, where, f"q{n}") for n in range(MOST_FILES)]
    assert len({snapshot.name for snapshot in kept}) == MOST_FILES
    seat = await seated(slots, where, "one more")
    assert await slots.save(seat, 100) is None
    slots.drop(kept[0])
    slots.give_back(seat)
    await slots.close()
    assert (await saved(slots, where, "again")).tokens == 100


async def test_snapshots_are_bounded_in_bytes() -> None:
    server = Server()
    server.size = MOST_BYTES // 250
    slots, where = Slots(server), facts(1)
    first = await saved(slots, where, "q0")
    await saved(slots, where, "q1")
    seat = await seated(slots, where, "q2")
    assert await slots.save(seat, 100) is None, "two of 40 % leave no room for a third"
    slots.drop(first)
    slots.give_back(seat)
    await slots.close()
    assert (await saved(slots, where, "q3")).tokens == 100


async def test_names_of_two_replicas_differ_and_are_plain() -> None:
    slots = Slots(Server())
    one = await saved(slots, facts(name="gpu/0 ../x"), "q")
    two = await saved(slots, facts(name="r2"), "q")
    assert one.name != two.name
    assert "/" not in one.name
    assert ".." not in one.name
