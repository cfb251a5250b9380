"""Celery's names for what the services do by the clock. Each is safe to run twice at once."""

from collections.abc import Callable
from typing import cast

from celery import shared_task

from metering.services.alerts import alert_budgets
from metering.services.archives import TASK, make_archives
from metering.services.house import keep_house
from metering.services.month_close import TASK as FINISH_CLOSES
from metering.services.month_close import close_due, finish_closes
from metering.services.reconciliation import reconcile as reconcile_month
from metering.services.reconciliation import reconcile_recent
from metering.services.settlement import settle_due

Task = Callable[[], None]


def _task(name: str) -> Callable[[Task], Task]:
    return cast("Callable[[Task], Task]", shared_task(name=name))


@_task("metering.settle")
def settle() -> None:
    """Settle days that are over."""
    settle_due()


@_task("metering.close_months")
def close_months() -> None:
    """Close months whose grace period is over, and see that their bills are right."""
    for closed in close_due():
        reconcile_month(closed.month)


@_task(FINISH_CLOSES)
def finish_months() -> None:
    """Issue the bills of months that somebody has closed by hand, and see that they are right."""
    for closed in finish_closes():
        reconcile_month(closed.month)


@_task("metering.reconcile")
def reconcile() -> None:
    """Compare rows, statements and bills."""
    reconcile_recent()


@_task("metering.budget_alerts")
def budget_alerts() -> None:
    """Tell businesses how much of their budget is spent."""
    alert_budgets()


@_task("metering.keep_house")
def house() -> None:
    """Make partitions ahead of time and drop what is kept no longer."""
    keep_house()


@_task(TASK)
def archives() -> None:
    """Zip the bills that somebody asked for."""
    make_archives()
