"""``manage.py settle --day YYYY-MM-DD``: daily settlement by hand."""

from argparse import ArgumentParser
from datetime import date

from django.core.management.base import BaseCommand

from metering.errors import RefusedError
from metering.services.settlement import settle_day, settle_due


class Command(BaseCommand):
    """Safe to repeat. A problem is one line on standard error and exit status 1."""

    help = "Settle one day, or without --day every day that is over and needs it."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """--day."""
        parser.add_argument("--day", type=date.fromisoformat, metavar="YYYY-MM-DD")

    def handle(self, *_: object, day: date | None, **__: object) -> None:
        """Settle and say what came of it."""
        try:
            settled = settle_due() if day is None else [settle_day(day)]
        except RefusedError as error:
            self.stderr.write(str(error))
            raise SystemExit(1) from None
        for each in settled:
            self.stdout.write(
                f"{each.day}: {each.rows} usage rows, {each.changed} statements changed"
            )
        if not settled:
            self.stdout.write("nothing to settle")
