"""Tables of the metering package."""

from .audit import AuditEntry, ChangeVersion
from .business import Business, Grade, Lane, Membership, Quota, Realtime
from .credentials import CredentialQuota, SigningKey, TierCredential
from .keys import ApiKey
from .quotas import KeyQuota, QuotaRequest
from .usage import UsageRecord

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Business",
    "ChangeVersion",
    "CredentialQuota",
    "Grade",
    "KeyQuota",
    "Lane",
    "Membership",
    "Quota",
    "QuotaRequest",
    "Realtime",
    "SigningKey",
    "TierCredential",
    "UsageRecord",
]
