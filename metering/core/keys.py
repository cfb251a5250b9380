"""What an API key is made of, and how one is recognised without being kept."""

import hashlib
import hmac

KEY_PREFIX = "fl_live_"
# How much of a key people may see: the fixed part and four characters.
SHOWN = len(KEY_PREFIX) + 4


def digest(key: str, pepper: bytes) -> bytes:
    """HMAC-SHA256 of ``key`` under ``pepper``: 32 bytes, all that is ever stored of a key.

    A key comes from a caller and may hold anything, lone surrogates included.
    """
    return hmac.digest(pepper, key.encode("utf-8", "surrogatepass"), hashlib.sha256)


def prefix_of(key: str) -> str:
    """The part of ``key`` that may be shown, stored and logged: its first 12 characters."""
    return key[:SHOWN]
