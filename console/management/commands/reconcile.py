"""``manage.py reconcile YYYY-MM``: do usage rows, statements and bills agree?"""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date

from django.core.management.base import BaseCommand

from metering.services.reconciliation import Check, reconcile


class Command(BaseCommand):
    """Exit status 1 where they do not."""

    help = "Compare usage rows, statements and bills of a month, to the unit."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The month."""
        parser.add_argument("month", type=_month, metavar="YYYY-MM")

    def handle(self, *_: object, month: date, **__: object) -> None:
        """Compare, keep the report, and print it."""
        found = reconcile(month)
        for check in found.checks:
            self.stdout.write(_line(check))
            for example in check.examples:
                self.stdout.write(f"  {example}")
        if found.gpu is not None:
            gpu = found.gpu
            self.stdout.write(
                f"GPU-seconds: {gpu.billed:.3f} charged, {gpu.unbilled:.3f} not charged,"
                f" {gpu.idle:.3f} idle, {gpu.wall:.3f} in all"
            )
        if found.differences:
            raise SystemExit(1)


def _line(check: Check) -> str:
    if check.note:
        return f"{check.name}: {check.note}"
    result = f"{check.differences} differences" if check.differences else "equal"
    counts = ""
    if check.left_requests or check.right_requests:
        counts = f" ({check.left_requests} and {check.right_requests} requests)"
    left, right = (f"{side.normalize():f}" for side in (check.left, check.right))
    return f"{check.name}: {result}; {check.left_name} {left}, {check.right_name} {right}{counts}"


def _month(text: str) -> date:
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise ArgumentTypeError(f"{text} is not a month like 2026-03") from None
