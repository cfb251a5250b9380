"""Events as engines define them, and a publisher that knows when it is heard."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import zmq

WAIT_MS = 20_000
encode = msgspec.msgpack.encode


# vLLM until mid-2026, with the fields that were added at the end over time.
class RowBatch(msgspec.Struct, array_like=True, omit_defaults=True):
    ts: float
    events: list[object]
    data_parallel_rank: int | None = None


class Row(msgspec.Struct, array_like=True, omit_defaults=True, tag=True):
    pass


class FirstStored(Row, tag="BlockStored"):
    """vLLM 0.9, and SGLang."""

    block_hashes: list[int]
    parent_block_hash: int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None


class FirstRemoved(Row, tag="BlockRemoved"):
    block_hashes: list[int]


class TieredStored(FirstStored, tag="BlockStored"):
    """vLLM 0.11."""

    medium: str | None


class TieredRemoved(FirstRemoved, tag="BlockRemoved"):
    medium: str | None


class GroupedStored(TieredStored, tag="BlockStored"):
    """The last array form."""

    lora_name: str | None
    extra_keys: list[tuple[object, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class GroupedRemoved(TieredRemoved, tag="BlockRemoved"):
    group_idx: int | None = None


class AllBlocksCleared(Row):
    pass


# vLLM since: fields by name, first of the events, then of batches too.
class NamedBatch(msgspec.Struct, omit_defaults=True):
    ts: float
    events: list[object]
    data_parallel_rank: int | None = None


class Named(msgspec.Struct, omit_defaults=True, tag=True):
    pass


class NamedStored(Named, tag="BlockStored"):
    block_hashes: list[bytes | int]
    parent_block_hash: bytes | int | None
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[object, ...] | None] | None = None
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class NamedRemoved(Named, tag="BlockRemoved"):
    block_hashes: list[bytes | int]
    medium: str | None
    group_idx: int | None = None


class NamedCleared(Named, tag="AllBlocksCleared"):
    pass


def stored(blocks: int, size: int = 16, first: int = 1) -> FirstStored:
    hashes = [2**63 + first + at for at in range(blocks)]
    return FirstStored(hashes, None, list(range(100_000, 100_000 + blocks * size)), size, None)


def removed(blocks: int, first: int = 1) -> FirstRemoved:
    return FirstRemoved([2**63 + first + at for at in range(blocks)])


def batch(*events: object) -> bytes:
    return encode(RowBatch(1789095808.8378847, list(events), 0))


class Publisher:
    """Like an engine's, but that it waits for its subscriber."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], port: int = 0) -> None:
        self._socket = context.socket(zmq.XPUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, 100_000)
        self._socket.setsockopt(zmq.RCVTIMEO, WAIT_MS)
        try:
            self._socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        except zmq.ZMQError:
            self._socket.close()
            raise
        self.url = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.number = 0

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def heard(self) -> None:
        """Wait until somebody has subscribed."""
        while self._socket.recv() != b"\x01":
            pass

    def is_heard(self) -> bool:
        """Whether somebody has subscribed since the last look; for loops."""
        return self._said(b"\x01")

    def is_left(self) -> bool:
        """Whether the subscriber has gone since."""
        return self._said(b"\x00")

    def _said(self, what: bytes) -> bool:
        try:
            return self._socket.recv(zmq.NOBLOCK) == what
        except zmq.Again:
            return False

    def left(self) -> None:
        """Wait until the subscriber has gone."""
        while self._socket.recv() != b"\x00":
            pass

    def send(self, *events: object) -> None:
        self.raw(b"", self.number.to_bytes(8, "big"), batch(*events))
        self.number += 1

    def raw(self, *frames: bytes) -> None:
        self._socket.send_multipart(frames)

    def close(self) -> None:
        self._socket.close()


@contextmanager
def publishing() -> Iterator[Publisher]:
    context = zmq.Context()
    publisher = Publisher(context)
    try:
        yield publisher
    finally:
        publisher.close()
        context.destroy(linger=0)
