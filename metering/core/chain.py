"""The audit's chain: a digest of each entry, and of each batch over the one before. Pure.

SHA-256 over JSON in one fixed form. A changed entry has another digest; one that was taken
out or put in changes its batch's hash, and with it every later one.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

FIRST = bytes(32)


@dataclass(frozen=True, slots=True)
class Sealed:
    """What is sealed of an entry. ``at`` is ISO 8601 in UTC with microseconds; ``data`` holds
    JSON's own types. Who did it stands there by name: a person's row may go."""

    id: int
    at: str
    actor_name: str
    source: str
    action: str
    business: str
    target: str
    data: object


def digest_of(entry: Sealed) -> bytes:
    """32 bytes that depend on every field."""
    text = json.dumps(asdict(entry), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).digest()


def hash_of(previous: bytes, number: int, digests: Iterable[bytes]) -> bytes:
    """The hash of batch ``number`` (from 1) whose entries, in order of their ids, have these
    digests; ``previous`` is the hash of the batch before, ``FIRST`` of none."""
    found = hashlib.sha256(previous)
    found.update(number.to_bytes(8, "big"))
    for digest in digests:
        found.update(digest)
    return found.digest()
