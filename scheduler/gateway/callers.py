"""Who calls: an API key, a tier credential, or a key with a credential beside it."""

from dataclasses import dataclass, replace

from metering.core.facts import AccessSnapshot, BusinessFacts, CredentialFacts, KeyFacts
from metering.core.keys import KEY_PREFIX, digest

from .credentials import CredentialVerifier
from .errors import GatewayError
from .incoming import Incoming


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and the most urgent lane (index) that all its credentials allow.

    ``business`` is as this caller may use it: the credential's grade in place of its own,
    and no models but the key's and credential's. ``key`` is None where the credential is the
    bearer.
    """

    business: BusinessFacts
    key: KeyFacts | None
    ceiling: int
    credential: CredentialFacts | None = None


def authenticate(
    incoming: Incoming,
    access: AccessSnapshot,
    pepper: bytes,
    wall: int,
    verifier: CredentialVerifier,
) -> Caller:
    """The caller at ``wall``, a date (ns). Raises the same 401 whatever was wrong."""
    shown = incoming.api_key
    if incoming.authorization:
        scheme, _, rest = incoming.authorization.partition(" ")
        bearer = rest.strip() if scheme.lower() == "bearer" else ""
        shown = bearer if shown in ("", bearer) else ""
    key: KeyFacts | None = None
    if shown.startswith(KEY_PREFIX):
        key = _key(shown, access, pepper, wall)
        token = incoming.credential
    else:
        # Two that differ are none.
        token = shown if incoming.credential in ("", shown) else ""
        if not token:
            raise GatewayError("invalid_api_key")
    credential = verifier.verify(token, access, wall) if token else None
    name = key.business if key is not None else credential.business if credential else ""
    business = access.businesses.get(name)
    if business is None or (credential is not None and credential.business != name):
        raise GatewayError("invalid_api_key")
    ceiling = business.ceiling
    if key is not None:
        if key.ceiling is not None:
            ceiling = max(ceiling, key.ceiling)
        if key.models is not None:
            business = replace(business, models=_common(business.models, key.models))
    if credential is None:
        return Caller(business, key, ceiling)
    return Caller(
        _as_granted(business, credential), key, max(ceiling, credential.ceiling), credential
    )


def _key(shown: str, access: AccessSnapshot, pepper: bytes, wall: int) -> KeyFacts:
    facts = access.keys.get(digest(shown, pepper))
    if facts is None or (facts.expires is not None and facts.expires <= wall):
        raise GatewayError("invalid_api_key")
    return facts


def _as_granted(business: BusinessFacts, credential: CredentialFacts) -> BusinessFacts:
    models = _common(business.models, credential.models)
    if business.grade == credential.grade and business.models == models:
        return business
    return replace(business, grade=credential.grade, models=models)


def _common(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """What both allow; None allows everything."""
    if one is None or other is None:
        return other if one is None else one
    return one & other
