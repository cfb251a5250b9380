"""What a tier credential says, which one may come out of which, and how keys are published."""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

ALGORITHM = "EdDSA"
ISSUER = "fairlane"
AUDIENCE = "fairlane-gateway"
# Most privileged first.
GRADES = ("vip", "premium", "basic")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a credential grants. ``ceiling`` is a lane's index; ``models`` None is every model;
    ``svc`` empty is any service; times are whole seconds since the epoch."""

    grade: str
    ceiling: int
    models: frozenset[str] | None
    svc: str
    not_before: int
    expires: int


def excess(child: Terms, parent: Terms) -> str:
    """What of ``child`` goes beyond ``parent``, as one line; empty where it is a subset."""
    if GRADES.index(child.grade) < GRADES.index(parent.grade):
        problem = f"grade {child.grade} is above {parent.grade}"
    elif child.ceiling < parent.ceiling:
        problem = f"ceiling P{child.ceiling} is above P{parent.ceiling}"
    elif parent.svc and child.svc != parent.svc:
        problem = f"the parent is for service {parent.svc} alone"
    elif child.expires > parent.expires:
        problem = "it would outlive its parent"
    elif child.not_before < parent.not_before:
        problem = "it would be valid before its parent"
    else:
        problem = _more_models(child.models, parent.models)
    return problem


def _more_models(child: frozenset[str] | None, parent: frozenset[str] | None) -> str:
    if parent is None:
        return ""
    if child is None:
        return "every model is more than the parent's models"
    beyond = child - parent
    return f"not the parent's models: {', '.join(sorted(beyond))}" if beyond else ""


def claims(
    terms: Terms, *, business: str, jti: str, parent: str | None, issued: int
) -> dict[str, object]:
    """The claims of a credential, all of them always there; ``issued`` in seconds."""
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": business,
        "grade": terms.grade,
        "ceiling": f"P{terms.ceiling}",
        "models": None if terms.models is None else sorted(terms.models),
        "svc": terms.svc,
        "iat": issued,
        "nbf": terms.not_before,
        "exp": terms.expires,
        "jti": jti,
        "parent": parent,
    }


def key_id(public: bytes) -> str:
    """The name of an Ed25519 public key (32 bytes): its JWK thumbprint, RFC 7638 and 8037."""
    canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{_text(public)}"}}'
    return _text(hashlib.sha256(canonical.encode()).digest())


def jwks(keys: Mapping[str, bytes]) -> dict[str, object]:
    """The JSON Web Key Set of public keys by key id: all that verifying offline takes."""
    return {
        "keys": [
            {
                "kty": "OKP",
                "crv": "Ed25519",
                "x": _text(public),
                "kid": kid,
                "use": "sig",
                "alg": ALGORITHM,
            }
            for kid, public in sorted(keys.items())
        ]
    }


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
