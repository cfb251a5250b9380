"""Signs tier credentials into a gateway's snapshot, and wrong ones beside it."""

import time
import uuid
from dataclasses import dataclass, field

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from metering.core.credentials import Terms, claims, key_id
from metering.core.facts import LANES, UNLIMITED, CredentialFacts, Rates
from scheduler.testing import Memory

SECOND = 1_000_000_000


@dataclass
class Signer:
    """One signing key, known to ``memory``."""

    memory: Memory
    private: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def __post_init__(self) -> None:
        self.memory.signing_keys[self.kid] = self.public

    @property
    def public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()

    @property
    def kid(self) -> str:
        return key_id(self.public)

    def issue(
        self,
        business: str = "urgent",
        *,
        grade: str = "vip",
        ceiling: str = "P0",
        models: set[str] | None = None,
        starts: int = -60,
        ends: int = 3600,
        rates: Rates = UNLIMITED,
        parent: str = "",
        headers: dict[str, object] | None = None,
        known: bool = True,
        **said: object,
    ) -> str:
        """A token; its facts go into the snapshot where ``known``. ``starts`` and ``ends`` are
        seconds from now; further keywords replace claims."""
        now = int(time.time())
        terms = Terms(
            grade=grade,
            ceiling=LANES.index(ceiling),
            models=None if models is None else frozenset(models),
            svc="",
            not_before=now + starts,
            expires=now + ends,
        )
        jti = str(uuid.uuid4())
        if known:
            self.memory.credentials[jti] = CredentialFacts(
                jti,
                business,
                grade,
                terms.ceiling,
                terms.models,
                "",
                terms.not_before * SECOND,
                terms.expires * SECOND,
                parent,
                rates,
            )
        body = claims(terms, business=business, jti=jti, parent=parent or None, issued=now)
        return jwt.encode(
            {**body, **said},
            self.private,
            algorithm="EdDSA",
            headers={"kid": self.kid, **(headers or {})},
        )


def jti_of(token: str) -> str:
    """The id of a token's credential."""
    return str(jwt.decode(token, options={"verify_signature": False})["jti"])
