"""Who may call, as one snapshot for the request path."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from django.db.models import Q
from django.utils import timezone

from metering.core.facts import (
    FREE,
    LANES,
    UNLIMITED,
    AccessSnapshot,
    Allowance,
    BusinessFacts,
    KeyFacts,
    Rates,
)
from metering.models import ApiKey, Business, ChangeVersion, KeyQuota, Quota
from metering.selectors.credentials import KEPT, load_credentials, load_signing_keys

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def load_access() -> AccessSnapshot:
    """Businesses, keys and credentials that are not revoked or long expired, in seven queries.

    Read without a transaction: the version first, so that what follows is at least that new;
    keys and credentials before businesses, so that none is of a business still unknown; and
    signing keys after the credentials they signed. Raises django.db.Error when Postgres cannot
    be read.
    """
    version = (
        ChangeVersion.objects.filter(topic=ChangeVersion.Topic.ACCESS)
        .values_list("version", flat=True)
        .first()
    )
    since = timezone.now() - KEPT
    rows = list(
        ApiKey.objects.filter(Q(expires_at=None) | Q(expires_at__gt=since), revoked_at=None)
        .order_by("pk")
        .values_list("pk", "digest", "prefix", "business__name", "ceiling", "expires_at")
    )
    quotas = {quota.key_id: quota for quota in KeyQuota.objects.filter(key__revoked_at=None)}
    credentials = load_credentials()
    signing_keys = load_signing_keys()
    businesses = _businesses()
    keys = {}
    for pk, stored, prefix, business, ceiling, expires_at in rows:
        if business in businesses:
            digest, quota = bytes(stored), quotas.get(pk)
            keys[digest] = KeyFacts(
                digest=digest,
                prefix=prefix,
                business=business,
                ceiling=LANES.index(ceiling) if ceiling else None,
                expires=None if expires_at is None else _ns(expires_at),
                allowance=FREE if quota is None else _allowance(quota),
                models=None if quota is None or quota.models is None else _names(quota.models),
            )
    return AccessSnapshot(
        version=version or 0,
        businesses=businesses,
        keys=keys,
        credentials=credentials,
        signing_keys=signing_keys,
    )


def _businesses() -> dict[str, BusinessFacts]:
    limits = {quota.business_id: quota for quota in Quota.objects.filter(kind=Quota.Kind.LIMIT)}
    return {row.name: _facts(row, limits.get(row.pk)) for row in Business.objects.all()}


def _facts(row: Business, limit: Quota | None) -> BusinessFacts:
    return BusinessFacts(
        name=row.name,
        tags=_names(row.tags),
        grade=row.grade,
        ceiling=LANES.index(row.ceiling),
        realtime=row.realtime or None,
        offline=row.offline,
        billing_sla=row.billing_sla,
        degrade=row.degrade,
        weight=row.weight,
        models=None if row.models is None else _names(row.models),
        latency_budget_ms=row.latency_budget_ms,
        running=None if limit is None else limit.running,
        queued=None if limit is None else limit.queued,
        suspended=row.suspended_at is not None,
        rates=UNLIMITED if limit is None else _rates(limit),
        gpu_share=None if limit is None else limit.gpu_share,
        monthly_budget=None if limit is None else limit.monthly_budget,
    )


def _rates(limit: Quota | KeyQuota) -> Rates:
    return Rates(limit.requests_per_s, limit.burst, limit.tokens_per_min)


def _allowance(quota: KeyQuota) -> Allowance:
    return Allowance(
        rates=_rates(quota),
        gpu_share=quota.gpu_share,
        monthly_budget=quota.monthly_budget,
        running=quota.running,
        queued=quota.queued,
    )


def _names(stored: Sequence[object]) -> frozenset[str]:
    return frozenset(str(item) for item in stored)


def _ns(moment: datetime) -> int:
    """Nanoseconds since the epoch, to the microsecond that Postgres keeps."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000
