"""Deterministic unit vectors. Pure."""

import base64
import hashlib
import math
import struct
from array import array
from collections.abc import Sequence


def embed(prompt: Sequence[int], dimensions: int) -> list[float]:
    """A unit vector that depends on the token ids alone."""
    packed = array("I", (token & 0xFFFFFFFF for token in prompt)).tobytes()
    raw = hashlib.shake_128(packed).digest(4 * dimensions)
    values = [value / 2**31 - 1 for value in struct.unpack(f"<{dimensions}I", raw)]
    norm = math.sqrt(math.fsum(value * value for value in values))
    return [value / norm for value in values]


def as_base64(vector: Sequence[float]) -> str:
    """Little-endian float32, the form of ``encoding_format: base64``."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
