"""``fleet apply`` and ``fleet export``: pools, models, replicas and businesses as a file."""

import sys
from pathlib import Path

from django.core.management.base import BaseCommand, CommandParser

from scheduler.core.policy import Problem
from scheduler.fleet_file import FleetError, dump_fleet, parse_fleet
from scheduler.services.fleet import apply_fleet, held_fleet

SOURCE = "command line"


class Command(BaseCommand):
    """Problems go to standard error, one line each, and end with exit status 1."""

    help = "Apply or export the fleet as YAML."
    # Those look at pages and settings, of which a fleet needs none.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The two forms of the command."""
        forms = parser.add_subparsers(dest="form", required=True)
        apply = forms.add_parser("apply", help="make the fleet what a file says")
        apply.add_argument("file", help="a YAML file, or - for standard input")
        apply.add_argument(
            "--prune",
            action="store_true",
            help="also remove what the file does not name, in the parts that it has; "
            "a business loses its keys with that",
        )
        forms.add_parser("export", help="print the fleet as it is")

    def handle(self, *_args: object, **options: object) -> None:
        """Run one form."""
        if options["form"] == "export":
            self.stdout.write(dump_fleet(held_fleet()), ending="")
            return
        try:
            document = parse_fleet(_text(str(options["file"])))
            diff = apply_fleet(document, prune=bool(options["prune"]), source=SOURCE)
        except FleetError as error:
            for problem in error.problems:
                self.stderr.write(str(problem))
            raise SystemExit(1) from None
        for change in diff.changes:
            self.stdout.write(str(change))
        if not diff:
            self.stdout.write("nothing to change")


def _text(file: str) -> str:
    """The content of a file, or of standard input for ``-``."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode()
    except OSError as error:
        raise FleetError([Problem("", f"{file}: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise FleetError([Problem("", f"{file} is not UTF-8 text")]) from None
