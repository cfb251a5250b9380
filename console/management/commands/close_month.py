"""``manage.py close_month YYYY-MM``: month close by hand."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date

from django.core.management.base import BaseCommand

from metering.errors import RefusedError
from metering.services.month_close import close_month
from metering.services.reconciliation import reconcile


class Command(BaseCommand):
    """Safe to repeat. A problem is one line on standard error and exit status 1."""

    help = "Close a month, and those before it that are open, and issue their bills."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The month."""
        parser.add_argument("month", type=_month, metavar="YYYY-MM")

    def handle(self, *_: object, month: date, **__: object) -> None:
        """Close and say what came of it."""
        try:
            closed = close_month(month, source="command line")
        except RefusedError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None
        for each in closed:
            self.stdout.write(f"{each.month:%Y-%m}: closed, {each.issued} bills issued")
            if differences := reconcile(each.month).differences:
                self.stderr.write(f"{each.month:%Y-%m}: the books differ in {differences} places")
        if not closed:
            self.stdout.write(f"{month:%Y-%m} is closed already")


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise ArgumentTypeError(f"{text} is not a month like 2026-03") from None
