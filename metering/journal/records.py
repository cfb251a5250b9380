"""How one usage row looks on disk.

A record is a two-byte mark, the payload's length and CRC-32 (both 32 bits, little-endian),
then the payload: the row as one JSON object in UTF-8. The mark's bytes occur in no UTF-8
text, so after damage the next whole record can be found again. JSON rather than something
tighter because Postgres reads it as it stands: the writer copies payloads and decodes none.
"""

import struct
import zlib
from dataclasses import asdict, dataclass

import msgspec

from metering.core.usage import UsageRow

MARK = b"\xff\xfe"
_HEAD = struct.Struct("<2sII")
# A row has a few hundred bytes. Anything far above holds a text that a caller made long.
LONGEST = 64 * 1024
_LONGEST_TEXT = 500
_LARGEST = 2**63 - 1

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Scan:
    """What a stretch of a file holds: payloads, where the next record would begin (bytes from
    the stretch's start), and how many bytes on the way were no whole record."""

    payloads: list[bytes]
    end: int
    damaged: int


def pack(row: UsageRow) -> bytes:
    """``row`` as one record, whatever its fields hold: a row is never refused."""
    try:
        payload = _encode(row)
    except (UnicodeEncodeError, OverflowError, TypeError):
        payload = _encode(_plain(row))
    if len(payload) > LONGEST:
        payload = _encode(_plain(row))
    return _HEAD.pack(MARK, len(payload), zlib.crc32(payload)) + payload


def _plain(row: UsageRow) -> dict[str, str | int | float | bool | None]:
    """The row's fields with what JSON or Postgres cannot hold replaced or cut."""
    return {name: _plain_value(value) for name, value in asdict(row).items()}


def _plain_value(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return max(-_LARGEST, min(value, _LARGEST))
    return str(value)[:_LONGEST_TEXT].encode("utf-8", "replace").decode()


def without_nul(payload: bytes) -> bytes:
    """``payload`` with NUL characters dropped from its texts: Postgres can't hold them."""
    if b"\\u0000" not in payload:
        return payload
    fields = msgspec.json.decode(payload, type=dict[str, str | int | float | bool | None])
    return _encode(
        {
            name: value.replace("\0", "") if isinstance(value, str) else value
            for name, value in fields.items()
        }
    )


def scan(data: bytes, most: int | None = None) -> Scan:
    """The records in ``data``, at most ``most`` of them.

    Bytes that are no whole record (a torn tail, a bad sector) are passed over up to the next
    whole one, or the end.
    """
    payloads: list[bytes] = []
    at = damaged = 0
    while at < len(data) and (most is None or len(payloads) < most):
        payload = _record(data, at)
        if payload is None:
            start = at
            at = _next(data, at + 1)
            damaged += at - start
        else:
            payloads.append(payload)
            at += _HEAD.size + len(payload)
    return Scan(payloads, at, damaged)


def _record(data: bytes, at: int) -> bytes | None:
    """The payload of the record at ``at``, if a whole and sound one begins there."""
    if len(data) - at < _HEAD.size:
        return None
    mark, length, crc = _HEAD.unpack_from(data, at)
    begin = at + _HEAD.size
    if mark != MARK or len(data) - begin < length:
        return None
    payload = data[begin : begin + length]
    return payload if zlib.crc32(payload) == crc else None


def _next(data: bytes, at: int) -> int:
    """Where the first whole record from ``at`` on begins; the end when there is none."""
    while (at := data.find(MARK, at)) >= 0:
        if _record(data, at) is not None:
            return at
        at += 1
    return len(data)
