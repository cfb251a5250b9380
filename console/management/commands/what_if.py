"""``what_if ID``: carries out a what-if run that a page has asked for."""

from django.core.management.base import BaseCommand, CommandParser

from scheduler.models import WhatIf
from scheduler.services.what_if import run_what_if


class Command(BaseCommand):
    """Progress and result stand in the run's row. Exit status 1 when it failed."""

    help = "Carry out a what-if run."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Which run."""
        parser.add_argument("id", type=int)

    def handle(self, *_args: object, **options: object) -> None:
        """Run it to its end."""
        row = run_what_if(int(str(options["id"])))
        if row.state != WhatIf.State.DONE:
            self.stderr.write(row.error or f"it is {row.state}")
            raise SystemExit(1)
