"""Ed25519 keys for tier credentials, and how their private halves are kept.

A private key lies encrypted in Postgres. Whichever process signs, on whichever host, has
the key that way, and a stolen dump alone forges nothing. The encryption key is derived
from the key pepper: a secret that every process of an installation shares already and that
outlives changes of SECRET_KEY. Who changes the pepper rotates the signing key afterwards.
"""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from metering.core.credentials import key_id

# Another purpose than the pepper's own must never come to the same key.
PURPOSE = b"fairlane tier credential signing key, version 1"
NONCE_BYTES = 12


class UnreadableKeyError(Exception):
    """A sealed key that this secret does not open."""


def new_key(secret: bytes) -> tuple[str, bytes, bytes]:
    """A new key pair: its id, the public key (32 bytes), the sealed private key."""
    private = Ed25519PrivateKey.generate()
    public = private.public_key().public_bytes_raw()
    kid = key_id(public)
    nonce = os.urandom(NONCE_BYTES)
    # Bound to its id, so that one row's key can't be passed off as another's.
    sealed = _cipher(secret).encrypt(nonce, private.private_bytes_raw(), kid.encode())
    return kid, public, nonce + sealed


def opened(kid: str, sealed: bytes, secret: bytes) -> Ed25519PrivateKey:
    """The private key. Raises UnreadableKeyError under another secret, or when tampered with."""
    try:
        raw = _cipher(secret).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], kid.encode())
    except (InvalidTag, ValueError):
        raise UnreadableKeyError(kid) from None
    return Ed25519PrivateKey.from_private_bytes(raw)


def _cipher(secret: bytes) -> AESGCM:
    return AESGCM(HKDF(SHA256(), length=32, salt=None, info=PURPOSE).derive(secret))
