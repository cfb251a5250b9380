"""What the messages of engines come to, in each form that they have had."""

import msgspec
import pytest

from scheduler.kv_events.tally import Tally
from scheduler.kv_events.wire import MOST_APART

from .publishers import (
    AllBlocksCleared,
    GroupedRemoved,
    GroupedStored,
    Named,
    NamedBatch,
    NamedCleared,
    NamedRemoved,
    NamedStored,
    RowBatch,
    TieredRemoved,
    TieredStored,
    batch,
    encode,
    removed,
    stored,
)

Told = tuple[bool, int | None]
NOTHING: Told = (False, 0)
ALL: Told = (True, None)
IDS = list(range(151_644, 151_660))
DIGEST = bytes(range(32))


def after(*payloads: bytes, tally: Tally | None = None, first: int = 0) -> Told:
    """What batches come to, numbered on from ``first``."""
    tally = tally or Tally()
    for number, payload in enumerate(payloads, first):
        tally.add([b"kv-events", number.to_bytes(8, "big"), payload])
    return tally.take()


FORMS = {
    "vLLM 0.9 and SGLang": batch(stored(4), removed(3)),
    "SGLang without a rank": encode(RowBatch(1.0, [stored(4), removed(3)])),
    "vLLM 0.11": batch(
        TieredStored([1, 2], None, IDS * 2, 16, None, "GPU"), TieredRemoved([1, 2, 3], "GPU")
    ),
    "the last arrays": batch(
        GroupedStored([1], 7, IDS, 16, None, "GPU", None, [None], 0, "full_attention"),
        GroupedRemoved([1, 2, 3], "GPU", 0),
    ),
    "events by name": encode(
        RowBatch(
            1.0,
            [
                NamedStored(
                    [1], None, IDS, 16, None, "GPU", None, [("salt",)], 0, "full_attention"
                ),
                NamedRemoved([1, 2, 3], "GPU", 0),
            ],
            0,
        )
    ),
    "all by name, hashes as bytes": encode(
        NamedBatch(
            1.0,
            [
                NamedStored([DIGEST], DIGEST, IDS, 16, None, "GPU", "adapter"),
                NamedRemoved([DIGEST, DIGEST, b"x"], "GPU"),
            ],
        )
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_three_blocks_of_sixteen_have_left(form: str) -> None:
    assert after(FORMS[form]) == (True, 48)


# What vLLM 0.26 sent for a question to Qwen3-8B.
RECORDED = bytes.fromhex(
    "93cb41daa8dbe0359fe7918ba474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cfdab8"
    "9baa7b5857c0b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f696473dc0010ce0002505ccd0368"
    "ccc6cd2368cd0176cd0117cd1a42cd013bcd15f01ece0002505dccc6ce0002505cce00012d23ccc6ce00025073aa"
    "626c6f636b5f73697a6510a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c0aa657874"
    "72615f6b65797391c0a967726f75705f69647800b26b765f63616368655f737065635f6b696e64ae66756c6c5f61"
    "7474656e74696f6e00"
)


def test_a_message_as_it_was_on_the_wire_is_read() -> None:
    tally = Tally()
    assert after(RECORDED, tally=tally) == NOTHING
    assert tally.problem == ""
    assert after(batch(GroupedRemoved([1], "GPU", 0)), tally=tally, first=1) == (True, 16)


@pytest.mark.parametrize(
    "event", [batch(AllBlocksCleared()), encode(NamedBatch(1.0, [NamedCleared()]))]
)
def test_all_are_gone_whatever_else_was_counted(event: bytes) -> None:
    assert after(batch(stored(4), removed(3)), event, batch(removed(1))) == ALL


def test_stored_blocks_are_no_news() -> None:
    assert after(batch(stored(500)), batch()) == NOTHING


def test_what_is_told_is_counted_anew() -> None:
    tally = Tally()
    assert after(batch(stored(1), removed(2)), batch(removed(1)), tally=tally) == (True, 48)
    assert tally.take() == NOTHING
    assert after(batch(removed(1)), tally=tally, first=2) == (True, 16)


def test_a_page_of_one_token_is_a_block_of_one() -> None:
    many = [removed(1, first) for first in range(9000)]
    assert after(batch(stored(9000, size=1), *many)) == (True, 9000)


def test_blocks_that_leave_before_any_comes_are_counted_when_their_size_is_known() -> None:
    tally = Tally()
    assert after(batch(removed(5)), tally=tally) == NOTHING
    assert after(batch(stored(1, size=32)), tally=tally, first=1) == (True, 160)


def test_other_tiers_do_not_count() -> None:
    """A block that leaves the GPU for the host's memory has left; one that leaves that has not."""
    assert after(
        batch(
            stored(2),
            TieredStored([9], None, IDS, 256, None, "CPU"),
            TieredRemoved([1], "GPU"),
            TieredRemoved([9, 10, 11], "CPU"),
            TieredRemoved([9], "DISK"),
        )
    ) == (True, 16)


def test_layers_that_keep_a_part_do_not_count() -> None:
    """Windows and states lose blocks all the time, and the same prompt's blocks count once."""

    def stored_of(group: int, kind: str) -> GroupedStored:
        return GroupedStored([1], None, IDS, 16, None, "GPU", None, None, group, kind)

    assert after(
        batch(
            stored_of(0, "sliding_window"),
            stored_of(1, "full_attention"),
            stored_of(2, "mamba"),
            stored_of(3, "full_attention"),
            *(GroupedRemoved([1, 2], "GPU", group) for group in range(4)),
        )
    ) == (True, 32)


@pytest.mark.parametrize(
    "numbers", [(0, 2), (5, 0), (5, 5), (5, 4), (0, 2**64 - 1), (2**64 - 1, 0)]
)
def test_a_number_out_of_turn_loses_all(numbers: tuple[int, int]) -> None:
    """A batch was dropped on the way, or another process publishes now."""
    tally = Tally()
    for number in numbers:
        tally.add([b"", number.to_bytes(8, "big"), batch(stored(1))])
    assert tally.take() == ALL
    tally.add([b"", ((numbers[1] + 1) % 2**64).to_bytes(8, "big"), batch(removed(1))])
    assert tally.take() == ((True, 16) if numbers[1] < 2**64 - 1 else ALL)


def test_the_first_number_may_be_any() -> None:
    """An engine that has run for a while: nothing was missed that anybody had counted."""
    assert after(batch(stored(1)), batch(removed(1)), first=70_000) == (True, 16)


class Moved(Named, tag="BlockMoved"):
    where: str


def test_kinds_that_are_not_known_are_passed_over() -> None:
    tally = Tally()
    events = [stored(1), ["BlockMoved", [1], "CPU"], {"type": "BlockMoved"}, removed(1)]
    assert after(batch(*events), tally=tally) == (True, 16)
    named: list[object] = [Moved("CPU"), NamedRemoved([1, 2], "GPU")]
    assert after(encode(NamedBatch(1.0, named)), tally=tally, first=1) == (True, 32)
    assert tally.problem == ""


def nested(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


BROKEN = {
    "nothing": b"",
    "no MessagePack": b"\xc1",
    "cut off": batch(stored(4))[:-9],
    "text": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "another shape": encode([1, 2, 3]),
    "events that are none": encode([1.0, {"a": 1}]),
    "numbers for events": encode([1.0, [1, 2, 3]]),
    "events without a kind": encode([1.0, [[]]]),
    "a removal of nothing": encode([1.0, [["BlockRemoved"]]]),
    "a removal of no list": encode([1.0, [stored(1), ["BlockRemoved", 7]]]),
    "a size that is none": encode([1.0, [["BlockStored", [1], None, [1], "x", None]]]),
    "a length that is a lie": b"\x92\xcb" + bytes(8) + b"\xdd\xff\xff\xff\xff",
    "too many of an unknown kind": encode([1.0, [["BlockMoved"]] * (MOST_APART + 1)]),
    "nested too deeply": b"\x92\xcb" + bytes(8) + nested(200_000),
    "nested too deeply inside": encode([1.0, [["BlockRemoved", msgspec.Raw(nested(200_000))]]]),
}


@pytest.mark.parametrize("what", BROKEN)
def test_what_cannot_be_read_may_have_said_anything(what: str) -> None:
    tally = Tally()
    assert after(batch(stored(1)), BROKEN[what], tally=tally) == ALL
    assert tally.problem
    # The next one counts again.
    assert after(batch(removed(1)), tally=tally, first=2) == (True, 16)
    assert tally.problem == ""


@pytest.mark.parametrize(
    "frames", [[], [b""], [b"", b""], [b"", b"", b""], [b"", b"1234567", b""], [b""] * 4]
)
def test_messages_of_another_form_are_none(frames: list[bytes]) -> None:
    tally = Tally()
    tally.add(frames)
    assert tally.problem
    assert tally.take() == ALL
