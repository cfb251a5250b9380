"""Secrets that lie in Postgres and must be read again: encrypted under a key that is derived from
the key pepper, for one purpose each. A stolen dump alone tells nothing."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12
WEBHOOKS = b"fairlane webhook signing secret, version 1"


class UnreadableSecretError(Exception):
    """A sealed secret that this pepper does not open."""


def seal(plain: bytes, pepper: bytes, purpose: bytes) -> bytes:
    """``plain`` encrypted."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _cipher(pepper, purpose).encrypt(nonce, plain, None)


def unseal(sealed: bytes, pepper: bytes, purpose: bytes) -> bytes:
    """What was sealed. Raises UnreadableSecretError under another pepper or purpose."""
    try:
        return _cipher(pepper, purpose).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], None)
    except (InvalidTag, ValueError):
        raise UnreadableSecretError from None


def _cipher(pepper: bytes, purpose: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=purpose).derive(pepper))
