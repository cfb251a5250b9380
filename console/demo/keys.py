"""One API key per business of the demo."""

from collections.abc import Mapping, Sequence

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from metering.core.keys import digest
from metering.models import ApiKey, Business
from metering.services.keys import create_key, revoke_key

from .marks import SOURCE, own

KEY_NAME = "demo"


def working_keys(businesses: Sequence[str], recorded: Mapping[str, str]) -> dict[str, str]:
    """A key for each business of the demo: the recorded one while it works, else a new one.

    Runs in the caller's transaction. A key that was made here before and is no longer known
    to anybody is revoked.
    """
    keys = {}
    for business in Business.objects.filter(name__in=own(Business).intersection(businesses)):
        key = recorded.get(business.name, "")
        if not (key and _works(business, key)):
            for old in ApiKey.objects.filter(business=business, name=KEY_NAME, revoked_at=None):
                revoke_key(old, actor=None, source=SOURCE)
            _, key = create_key(business, KEY_NAME, actor=None, source=SOURCE)
        keys[business.name] = key
    return {name: keys[name] for name in businesses if name in keys}


def known_keys(recorded: Mapping[str, str]) -> bool:
    """Whether any of the recorded keys works in this database."""
    found = Business.objects.filter(name__in=recorded)
    return any(_works(business, recorded[business.name]) for business in found)


def _works(business: Business, key: str) -> bool:
    alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
    return ApiKey.objects.filter(
        alive,
        business=business,
        digest=digest(key, settings.FAIRLANE_KEY_PEPPER),
        revoked_at=None,
    ).exists()
