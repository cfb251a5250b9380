"""Tables of the metering package."""

from .audit import AuditBatch, AuditEntry, ChangeVersion
from .bills import Bill, BillArchive, BillLine, CreditNote, NumberSeries
from .budget import AlertDelivery, AlertTarget, BudgetAlert, GpuHour, ReconciliationReport
from .business import Business, Grade, Lane, Membership, Quota, Realtime
from .credentials import CredentialQuota, SigningKey, TierCredential
from .grades import GradeRequest
from .keys import ApiKey
from .prices import ModelPrice, PriceBook
from .quotas import KeyQuota, QuotaRequest
from .statements import (
    Adjustment,
    BillingClock,
    DailyStatement,
    DaySettlement,
    Figures,
    LateUsage,
    MonthClose,
    UsageHour,
)
from .usage import UsageRecord

__all__ = [
    "Adjustment",
    "AlertDelivery",
    "AlertTarget",
    "ApiKey",
    "AuditBatch",
    "AuditEntry",
    "Bill",
    "BillArchive",
    "BillLine",
    "BillingClock",
    "BudgetAlert",
    "Business",
    "ChangeVersion",
    "CredentialQuota",
    "CreditNote",
    "DailyStatement",
    "DaySettlement",
    "Figures",
    "GpuHour",
    "Grade",
    "GradeRequest",
    "KeyQuota",
    "Lane",
    "LateUsage",
    "Membership",
    "ModelPrice",
    "MonthClose",
    "NumberSeries",
    "PriceBook",
    "Quota",
    "QuotaRequest",
    "Realtime",
    "ReconciliationReport",
    "SigningKey",
    "TierCredential",
    "UsageHour",
    "UsageRecord",
]
