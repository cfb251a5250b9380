"""Where everything meets: the only module that may import from every package."""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo

from channels.layers import get_channel_layer
from django import db
from django.conf import settings

from console.config.books import BooksNews
from metering.changes import ChangeListener
from metering.core.escalations import EscalationMinute
from metering.core.facts import AccessSnapshot
from metering.core.periods import month_bounds, month_of
from metering.journal import Journal
from metering.selectors.access import load_access
from metering.selectors.reconciliation import open_differences
from metering.selectors.spending import load_spent
from metering.services.audit import record_escalations
from metering.services.gpu_hours import keep_gpu_hours
from scheduler.answers import AnswerFiles
from scheduler.canary import Tally, Trial
from scheduler.clock import SystemClock
from scheduler.core.events import Sample
from scheduler.core.fleet import FleetSnapshot
from scheduler.core.policy import Policy
from scheduler.decision_log import DecisionWriter
from scheduler.ports import GpuHours, Scaler, Spent, UsageSink
from scheduler.runtime import Runtime
from scheduler.scaling import NoScaler
from scheduler.scaling.processes import LocalProcesses
from scheduler.selectors.canary import load_trial
from scheduler.selectors.fleet import load_fleet
from scheduler.selectors.policy import load_policy
from scheduler.selectors.samples import load_samples
from scheduler.services.canary import report_canary

log = logging.getLogger(__name__)
SECOND = 1_000_000_000


class Database:
    """Snapshots out of Postgres. Each read gives its connection back to the pool."""

    def access(self) -> AccessSnapshot:
        """Who may call."""
        try:
            return load_access()
        finally:
            db.connections.close_all()

    def fleet(self) -> FleetSnapshot:
        """Where requests may run."""
        try:
            return load_fleet()
        finally:
            db.connections.close_all()

    def policy(self) -> tuple[int, Policy]:
        """By which rules."""
        try:
            return load_policy()
        finally:
            db.connections.close_all()

    def open_differences(self) -> int:
        """By how much the books disagree."""
        try:
            return open_differences()
        finally:
            db.connections.close_all()

    def trial(self) -> Trial | None:
        """The canary that runs."""
        try:
            return load_trial()
        finally:
            db.connections.close_all()

    def samples(self) -> Sequence[Sample]:
        """Some of the last day's requests."""
        try:
            return load_samples()
        except db.Error as error:
            raise OSError(f"Postgres says: {error}") from error
        finally:
            db.connections.close_all()

    def report(self, trial: int, tally: Tally) -> None:
        """Add to what is counted of it."""
        try:
            report_canary(trial, tally)
        except db.Error as error:
            raise OSError(f"Postgres says: {error}") from error
        finally:
            db.connections.close_all()


class Books:
    """What was spent, and the replicas' hours. Gives its connections back to the pool."""

    def __init__(self, zone: str) -> None:
        self._zone = ZoneInfo(zone)

    def month(self, wall: int) -> tuple[int, int]:
        """Months as bills know them."""
        first = month_of(datetime.fromtimestamp(wall // SECOND, UTC), self._zone)
        begin, end = month_bounds(first, self._zone)
        return int(begin.timestamp()) * SECOND, int(end.timestamp()) * SECOND

    def spent(
        self,
        since: int,
        before: int,
        businesses: Sequence[str],
        keys: Sequence[tuple[str, str]],
    ) -> Spent:
        """By these businesses and keys."""
        try:
            prices, by_business, by_key = load_spent(
                since, before, businesses, keys, zone=self._zone
            )
        except db.Error as error:
            raise OSError(f"Postgres says: {error}") from error
        finally:
            db.connections.close_all()
        return Spent(prices, by_business, by_key)

    def gpu_hours(self, hours: Sequence[GpuHours]) -> None:
        """These hours stand so now."""
        try:
            keep_gpu_hours(
                [(row.writer, row.replica, row.hour, row.wall, row.busy) for row in hours]
            )
        except db.Error as error:
            raise OSError(f"Postgres says: {error}") from error
        finally:
            db.connections.close_all()


class Audit:
    """The audit trail, for what callers try. Gives its connection back to the pool."""

    def escalations(self, minutes: Sequence[EscalationMinute]) -> None:
        """Add up claims above their callers' ceilings."""
        try:
            record_escalations(minutes)
        except db.Error as error:
            raise OSError(f"Postgres says: {error}") from error
        finally:
            db.connections.close_all()


def scaler() -> Scaler:
    """The driver of idle cards: processes of this machine where a file names some."""
    if not settings.FAIRLANE_CARDS:
        return NoScaler()
    return LocalProcesses(settings.FAIRLANE_CARDS, logs=settings.FAIRLANE_DATA_DIR / "logs")


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """The process's scheduler and gateway, made when first asked for."""
    return make_runtime(Journal(settings.FAIRLANE_DATA_DIR / "journal"))


def make_runtime(usage: UsageSink) -> Runtime:
    """A scheduler and gateway whose usage rows go there."""
    layer = get_channel_layer()
    assert layer is not None, "the settings define no channel layer"
    database = Database()
    news = BooksNews(ChangeListener(), database.open_differences)
    made = Runtime(
        clock=SystemClock(),
        credentials=database,
        fleet=database,
        policy=database,
        changes=news,
        recall=database,
        usage=usage,
        books=Books(settings.BILLING_TZ),
        answers=AnswerFiles(settings.FAIRLANE_DATA_DIR / "answers"),
        audit=Audit(),
        decisions=DecisionWriter(),
        scaler=scaler(),
        layer=layer,
        pepper=settings.FAIRLANE_KEY_PEPPER,
        max_body=settings.FAIRLANE_MAX_BODY_BYTES,
        metrics_token=settings.METRICS_TOKEN,
        networks=settings.FAIRLANE_REPLICA_CIDRS,
    )
    news.show = made.stats.metrics.reconciliation_differences.set
    return made
