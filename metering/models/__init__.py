"""Tables of the metering package."""

from .audit import AuditEntry, ChangeVersion
from .business import Business, Grade, Lane, Membership, Quota, Realtime
from .credentials import CredentialQuota, SigningKey, TierCredential
from .keys import ApiKey
from .usage import UsageRecord

__all__ = [
    "ApiKey",
    "AuditEntry",
    "Business",
    "ChangeVersion",
    "CredentialQuota",
    "Grade",
    "Lane",
    "Membership",
    "Quota",
    "Realtime",
    "SigningKey",
    "TierCredential",
    "UsageRecord",
]
