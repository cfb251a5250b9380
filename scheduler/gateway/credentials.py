"""Tier credentials as callers show them: verified once, then found again by their hash.

The signature says that we signed it; what it grants comes from the snapshot, where a revoked
credential is missing. The algorithm is pinned and keys are looked up in the snapshot alone:
whatever a token's header says about where to find a key is not looked at.
"""

from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from metering.core.credentials import ALGORITHM, AUDIENCE, ISSUER
from metering.core.facts import AccessSnapshot, CredentialFacts

from .errors import GatewayError

MOST_KNOWN = 4096
MOST_BYTES = 8192
# Times are the snapshot's matter: they are compared with the gateway's wall clock, each time.
OPTIONS: jwt.types.Options = {
    "require": ["iss", "aud", "sub", "exp", "nbf", "iat", "jti"],
    "strict_aud": True,
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
}


@dataclass(frozen=True, slots=True)
class Verified:
    """A token whose signature held under ``public``, the key then known as ``kid``."""

    kid: str
    public: bytes
    jti: str
    business: str


class CredentialVerifier:
    """Remembers the ``MOST_KNOWN`` tokens used last, by hash; bad ones are not remembered."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Verified] = OrderedDict()

    def verify(self, token: str, access: AccessSnapshot, wall: int) -> CredentialFacts:
        """What the token grants at ``wall``, a date (ns). Raises the same 401 whatever is wrong."""
        hashed = sha256(token.encode()).digest()
        found = self._known.get(hashed)
        if found is None or access.signing_keys.get(found.kid) != found.public:
            found = self._known[hashed] = _verified(token, access)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        self._known.move_to_end(hashed)
        facts = access.credentials.get(found.jti)
        if (
            facts is None
            or facts.business != found.business
            or not facts.not_before <= wall < facts.expires
        ):
            raise GatewayError("invalid_api_key")
        return facts


def _verified(token: str, access: AccessSnapshot) -> Verified:
    try:
        if len(token) > MOST_BYTES:
            raise jwt.DecodeError
        kid = jwt.get_unverified_header(token).get("kid", "")
        public = access.signing_keys.get(kid)
        if public is None:
            raise jwt.InvalidKeyError
        said = jwt.decode(
            token,
            Ed25519PublicKey.from_public_bytes(public),
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            issuer=ISSUER,
            options=OPTIONS,
        )
    except jwt.PyJWTError:
        raise GatewayError("invalid_api_key") from None
    return Verified(kid, public, said["jti"], said["sub"])
