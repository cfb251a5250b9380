"""How the books last compared."""

from datetime import date

from django.db.models import QuerySet

from metering.core.periods import first_of
from metering.models import ReconciliationReport


def latest_report(month: date) -> ReconciliationReport | None:
    """The newest report of a month; its ``data`` has ``checks`` and ``gpu`` (services.
    reconciliation: Check, GpuTime; decimals as strings)."""
    return ReconciliationReport.objects.filter(month=first_of(month)).order_by("-at").first()


def latest_reports() -> QuerySet[ReconciliationReport]:
    """The newest report of each month, the newest month first."""
    return ReconciliationReport.objects.order_by("-month", "-at").distinct("month")


def open_differences() -> int:
    """Differences in the newest report of each month, added up."""
    return sum(latest_reports().values_list("differences", flat=True))
