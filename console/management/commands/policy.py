"""``policy export``, ``policy import`` and ``policy check``: the policy as YAML."""

import sys
from pathlib import Path

from django.core.management.base import BaseCommand, CommandParser

from scheduler.core.policy import Policy, PolicyError, Problem, differences
from scheduler.models import PolicyVersion
from scheduler.policy_file import dump, parse
from scheduler.selectors.policy import closed_pools, load_policy, load_version, missing_pools
from scheduler.services.policy import import_policy

SOURCE = "command line"


class Command(BaseCommand):
    """Problems go to standard error, one line each, and end with exit status 1."""

    help = "Export, import or check the scheduling policy as YAML."
    # Those look at pages and settings, of which a policy needs none.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The three forms of the command."""
        forms = parser.add_subparsers(dest="form", required=True)
        export = forms.add_parser("export", help="print the active policy, or one version")
        export.add_argument("--version", type=int, dest="number", metavar="N")
        take = forms.add_parser("import", help="save a file as the next version")
        take.add_argument("file", help="a YAML file, or - for standard input")
        take.add_argument("--activate", action="store_true", help="and make it the active one")
        take.add_argument("--reason", help="why, for the audit")
        check = forms.add_parser("check", help="check a file and change nothing")
        check.add_argument("file", help="a YAML file, or - for standard input")

    def handle(self, *_args: object, **options: object) -> None:
        """Run one form."""
        file, number, reason = options.get("file"), options.get("number"), options.get("reason")
        try:
            if options["form"] == "export":
                self._export(number if isinstance(number, int) else None)
            elif options["form"] == "import":
                words = str(reason or f"import of {file}")
                self._import(str(file), active=bool(options["activate"]), reason=words)
            else:
                _read(str(file))
                self.stdout.write(f"{file}: no problems")
        except PolicyError as error:
            for problem in error.problems:
                self.stderr.write(str(problem))
            raise SystemExit(1) from None

    def _export(self, number: int | None) -> None:
        try:
            policy = load_policy()[1] if number is None else load_version(number)
        except PolicyVersion.DoesNotExist:
            raise PolicyError([Problem("", f"there is no policy {number}")]) from None
        self.stdout.write(dump(policy), ending="")

    def _active(self) -> tuple[int, Policy]:
        """What to compare with. An unreadable one must not stop the import that mends it."""
        try:
            return load_policy()
        except PolicyError as error:
            self.stderr.write(f"warning: the active policy can't be read: {error.problems[0]}")
            return 0, Policy()

    def _import(self, file: str, *, active: bool, reason: str) -> None:
        policy = _read(file)
        number, before = self._active()
        row = import_policy(policy, active=active, author=None, reason=reason, source=SOURCE)
        for warning in missing_pools(policy) + closed_pools(policy):
            self.stderr.write(f"warning: {warning}")
        changed = differences(before, policy)
        against = f"the active policy {number}" if number else "the defaults"
        self.stdout.write(f"policy {row.version} saved; against {against}:")
        for difference in changed:
            self.stdout.write(f"  {difference}")
        if not changed:
            self.stdout.write("  no difference")
        if row.active:
            self.stdout.write(f"policy {row.version} is active")


def _read(file: str) -> Policy:
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return parse(raw.decode("utf-8-sig"))
    except OSError as error:
        raise PolicyError([Problem("", f"cannot read {file}: {error.strerror}")]) from None
    except UnicodeDecodeError:
        raise PolicyError([Problem("", f"{file} is not UTF-8 text")]) from None
