"""Tier credentials that may be used, and the keys that verify them."""

from datetime import UTC, datetime, timedelta

from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from metering.core.facts import LANES, UNLIMITED, CredentialFacts, Rates
from metering.models import CredentialQuota, SigningKey, TierCredential

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What has expired since then is still read: whether it may be used is decided at each call, by
# the wall clock of that moment, which may have been set back after the reading.
KEPT = timedelta(days=2)


def load_signing_keys() -> dict[str, bytes]:
    """Raw public keys by id: the active one, and retired ones as long as a credential that
    they signed can be used. One query."""
    used = TierCredential.objects.filter(
        signing_key=OuterRef("pk"), revoked_at=None, expires_at__gt=timezone.now() - KEPT
    )
    rows = SigningKey.objects.filter(Q(status=SigningKey.Status.ACTIVE) | Exists(used))
    return {kid: bytes(public) for kid, public in rows.values_list("kid", "public")}


def load_credentials() -> dict[str, CredentialFacts]:
    """Credentials neither revoked nor long expired, by id; those not yet valid included. One
    query."""
    rows = TierCredential.objects.filter(revoked_at=None, expires_at__gt=timezone.now() - KEPT)
    found = {}
    for row in rows.select_related("business", "parent", "quota").order_by("pk"):
        found[str(row.jti)] = CredentialFacts(
            jti=str(row.jti),
            business=row.business.name,
            grade=row.grade,
            ceiling=LANES.index(row.ceiling),
            models=None if row.models is None else frozenset(map(str, row.models)),
            svc=row.svc,
            not_before=_ns(row.not_before),
            expires=_ns(row.expires_at),
            parent="" if row.parent is None else str(row.parent.jti),
            rates=_rates(row),
        )
    return found


def _rates(row: TierCredential) -> Rates:
    try:
        quota = row.quota
    except CredentialQuota.DoesNotExist:
        return UNLIMITED
    return Rates(quota.requests_per_s, quota.burst, quota.tokens_per_min)


def _ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1) * 1_000_000_000
