"""KV cache events on the wire, as vLLM publishes them with ``--kv-events-config``."""

import time
from collections.abc import Iterable

import msgspec
import zmq

from .blocks import BLOCK_TOKENS, BlockPool, Change, Removed, Stored

HELD_MESSAGES = 100_000
GPU = "GPU"
_encode = msgspec.msgpack.Encoder().encode


def _hash(key: int) -> int:
    """A block's hash as vLLM shows it: 64 bits, no sign."""
    return key & 0xFFFF_FFFF_FFFF_FFFF


def as_rows(changes: Iterable[Change]) -> list[list[object]]:
    """Events in the array form of vLLM 0.11."""
    rows: list[list[object]] = []
    for change in changes:
        if isinstance(change, Stored):
            parent = _hash(change.before) if change.before else None
            hashes = [_hash(key) for key in change.keys]
            rows.append(
                ["BlockStored", hashes, parent, list(change.tokens), BLOCK_TOKENS, None, GPU]
            )
        elif isinstance(change, Removed):
            rows.append(["BlockRemoved", [_hash(change.key)], GPU])
        else:
            rows.append(["AllBlocksCleared"])
    return rows


class Publisher:
    """Listens for subscribers; each of ``flush``'s batches has the next number. It never waits:
    what a slow subscriber does not take is dropped."""

    def __init__(self, pool: BlockPool, host: str, port: int) -> None:
        self._changes: list[Change] = []
        self._number = 0
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUB)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.setsockopt(zmq.SNDHWM, HELD_MESSAGES)
        self._socket.setsockopt(zmq.IPV6, ":" in host)
        place = f"tcp://[{host}]" if ":" in host else f"tcp://{host}"
        try:
            self._socket.bind(f"{place}:{port or '*'}")
        except zmq.ZMQError as error:
            self.close()
            raise OSError(error.errno, f"KV cache events: {error}") from error
        self.url = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        pool.on_change = self._changes.append

    def flush(self) -> None:
        """Send what has changed since."""
        if not self._changes:
            return
        batch = [time.time(), as_rows(self._changes), 0]
        self._changes.clear()
        self._socket.send_multipart([b"", self._number.to_bytes(8, "big"), _encode(batch)])
        self._number += 1

    def close(self) -> None:
        """Let go of the port."""
        self._socket.close()
        self._context.term()
