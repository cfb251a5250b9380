"""A publisher's message: a batch of events in MessagePack.

vLLM wrote batches and events as arrays, since mid-2026 events as maps by their fields' names, and
SGLang has arrays; each has added fields at the end now and then. Both are read in either form, for
what is needed here. What is long (hashes, token ids) is passed over, not unpacked.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

# Of a batch with kinds of events that are not known here each is looked at for itself.
MOST_APART = 4096


class _Stored(msgspec.Struct):
    block_hashes: msgspec.Raw
    parent_block_hash: msgspec.Raw
    token_ids: msgspec.Raw
    block_size: int
    lora_id: msgspec.Raw = msgspec.Raw()
    # What follows came later, and not everywhere in this order.
    medium: Any = None
    lora_name: msgspec.Raw = msgspec.Raw()
    extra_keys: msgspec.Raw = msgspec.Raw()
    group_idx: Any = None
    kv_cache_spec_kind: Any = None


class _Removed(msgspec.Struct):
    block_hashes: msgspec.Raw
    medium: Any = None
    group_idx: Any = None


class StoredRow(_Stored, array_like=True, tag="BlockStored"):
    """Blocks have come into the cache; as an array."""


class StoredMap(_Stored, tag="BlockStored"):
    """The same as a map."""


class RemovedRow(_Removed, array_like=True, tag="BlockRemoved"):
    """Blocks have left the cache; as an array."""


class RemovedMap(_Removed, tag="BlockRemoved"):
    """The same as a map."""


class ClearedRow(msgspec.Struct, array_like=True, tag="AllBlocksCleared"):
    """All blocks have left the cache; as an array."""


class ClearedMap(msgspec.Struct, tag="AllBlocksCleared"):
    """The same as a map."""


Stored = StoredRow | StoredMap
Removed = RemovedRow | RemovedMap
Event = Stored | Removed | ClearedRow | ClearedMap
Rows = list[StoredRow | RemovedRow | ClearedRow]
Maps = list[StoredMap | RemovedMap | ClearedMap]


class _Batch(msgspec.Struct):
    ts: msgspec.Raw
    events: msgspec.Raw


class _BatchRow(_Batch, array_like=True):
    pass


class _Kind(msgspec.Struct):
    type: str


class _KindRow(_Kind, array_like=True):
    pass


_batch_row = msgspec.msgpack.Decoder(_BatchRow).decode
_batch_map = msgspec.msgpack.Decoder(_Batch).decode
_rows = msgspec.msgpack.Decoder(Rows).decode
_maps = msgspec.msgpack.Decoder(Maps).decode
_row = msgspec.msgpack.Decoder(StoredRow | RemovedRow | ClearedRow).decode
_map = msgspec.msgpack.Decoder(StoredMap | RemovedMap | ClearedMap).decode
_apart = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_kind_row = msgspec.msgpack.Decoder(_KindRow).decode
_kind_map = msgspec.msgpack.Decoder(_Kind).decode
KNOWN = frozenset({"BlockStored", "BlockRemoved", "AllBlocksCleared"})


def read(payload: bytes) -> Sequence[Event]:
    """The batch's events of the kinds that are known. Raises ValueError where it is no batch, or
    an event of a known kind is not as it should be."""
    batch = _batch_map(payload) if _is_map(payload) else _batch_row(payload)
    events = memoryview(batch.events)
    size = length(events)
    if not size:
        return ()
    first = 1 + _HEADERS.get(events[0], 0)
    decode = _maps if _is_map(events[first:]) else _rows
    try:
        return decode(events)
    except msgspec.ValidationError:
        if size > MOST_APART:
            raise
    return [event for raw in _apart(events) if (event := _known(raw)) is not None]


def _known(raw: msgspec.Raw) -> Event | None:
    """An event alone; None where it is of another kind."""
    by_name = _is_map(memoryview(raw))
    if (_kind_map(raw) if by_name else _kind_row(raw)).type not in KNOWN:
        return None
    event: Event = _map(raw) if by_name else _row(raw)
    return event


# How many bytes of its length follow the first one of a longer array.
_HEADERS = {0xDC: 2, 0xDD: 4}


def length(array: memoryview) -> int:
    """How many items a well-formed array of MessagePack has. Raises ValueError for others."""
    first = array[0]
    if 0x90 <= first <= 0x9F:
        return first & 0x0F
    if first not in _HEADERS:
        raise ValueError("not an array")
    return int.from_bytes(array[1 : 1 + _HEADERS[first]], "big")


def _is_map(value: bytes | memoryview) -> bool:
    return bool(value) and (0x80 <= value[0] <= 0x8F or value[0] in (0xDE, 0xDF))
