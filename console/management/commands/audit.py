"""``audit verify`` and ``audit seal``: the chain of the audit's entries."""

from django.core.management.base import BaseCommand, CommandParser

from metering.services.audit_chain import seal, verify


class Command(BaseCommand):
    """Problems go to standard error, one line each, and end with exit status 1."""

    help = "Check the audit's chain, or seal what is not sealed yet."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The two forms of the command."""
        forms = parser.add_subparsers(dest="form", required=True)
        check = forms.add_parser("verify", help="compute the whole chain again")
        check.add_argument(
            "--head", default="", metavar="HASH", help="a batch's hash as the log once had it"
        )
        forms.add_parser("seal", help="seal now what else is sealed within seconds")

    def handle(self, *_args: object, **options: object) -> None:
        """Run one form."""
        if options["form"] == "seal":
            self.stdout.write(f"{seal()} entries sealed")
            return
        report = verify(str(options["head"]))
        self.stdout.write(
            f"{report.batches} batches, {report.entries} entries, {report.waiting} not sealed yet"
        )
        if report.head:
            self.stdout.write(f"head {report.head}")
        for problem in report.problems:
            self.stderr.write(problem)
        if report.problems:
            raise SystemExit(1)
        self.stdout.write("the chain holds")
