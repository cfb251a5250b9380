"""Records on disk: whatever is damaged, every whole row is found again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.journal.records import LONGEST, pack, scan, without_nul
from tests.metering.helpers import usage_row


def test_rows_come_back_in_order() -> None:
    rows = [usage_row() for _ in range(5)]
    data = b"".join(map(pack, rows))
    found = scan(data)
    assert [json.loads(payload)["id"] for payload in found.payloads] == [row.id for row in rows]
    assert (found.end, found.damaged) == (len(data), 0)


def test_a_batch_ends_where_the_next_begins() -> None:
    data = b"".join(pack(usage_row()) for _ in range(5))
    first = scan(data, 3)
    rest = scan(data[first.end :], 3)
    assert first.payloads + rest.payloads == scan(data).payloads


@given(cut=st.integers(min_value=0, max_value=10_000))
def test_a_torn_tail_costs_only_itself(cut: int) -> None:
    whole, last = pack(usage_row(id="a" * 36)), pack(usage_row())
    torn = last[: cut % len(last)]
    found = scan(whole + torn)
    assert found.payloads == scan(whole).payloads
    assert (found.end, found.damaged) == (len(whole) + len(torn), len(torn))


@given(
    before=st.integers(min_value=0, max_value=3),
    noise=st.binary(max_size=300),
    after=st.integers(min_value=0, max_value=3),
)
def test_rows_around_noise_are_found(before: int, noise: bytes, after: int) -> None:
    first = b"".join(pack(usage_row()) for _ in range(before))
    second = b"".join(pack(usage_row()) for _ in range(after))
    found = scan(first + noise + second)
    assert found.payloads == scan(first).payloads + scan(second).payloads
    assert found.damaged == len(noise)


def test_one_flipped_bit_costs_one_row() -> None:
    records = [pack(usage_row()) for _ in range(3)]
    damaged = bytearray(records[1])
    damaged[60] ^= 1
    found = scan(records[0] + bytes(damaged) + records[2])
    assert found.payloads == scan(records[0] + records[2]).payloads
    assert found.damaged == len(damaged)


@pytest.mark.parametrize(
    "fields",
    [
        {"requested_model": "half a pair \ud800"},
        {"requested_model": "x" * 1_000_000},
        {"prompt_tokens": 2**80},
        {"prompt_tokens": -(2**80)},
        {"queue_wait_ms": float("nan")},
        {"gpu_seconds": float("inf")},
        {"replica": object()},
    ],
)
def test_no_row_is_too_odd_to_write(fields: dict[str, object]) -> None:
    record = pack(usage_row(**fields))
    assert len(record) < LONGEST
    [payload] = scan(record).payloads
    assert json.loads(payload)["business"] == "risk-audit"


def test_nul_is_dropped_and_nothing_else() -> None:
    [payload] = scan(pack(usage_row(requested_model='a\0b\\u0000"'))).payloads
    assert json.loads(without_nul(payload))["requested_model"] == 'ab\\u0000"'
    [plain] = scan(pack(usage_row())).payloads
    assert without_nul(plain) is plain
