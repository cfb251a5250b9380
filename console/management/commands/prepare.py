"""``manage.py prepare``: bring the database up to date before serving."""

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from console.demo.prepare import Plan, prepare


class Command(BaseCommand):
    """Migrations, the fleet's local replicas and the demo. ``manage.py up`` runs it."""

    help = "Migrate the database, and load demo data and local replicas if asked to."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """What runs on this machine, and where."""
        parser.add_argument("--demo", metavar="URL", help="load the demo; console and gateway")
        parser.add_argument("--running", metavar="FILE", type=Path, action="append", default=[])
        parser.add_argument("--idle", metavar="FILE", type=Path, action="append", default=[])
        parser.add_argument("--replica", metavar="NAME=URL", action="append", default=[])

    def handle(
        self,
        *_: object,
        demo: str | None,
        running: list[Path],
        idle: list[Path],
        replica: list[str],
        **__: object,
    ) -> None:
        """Do it; nothing is printed when all is well, and nobody's own things have the names of the
        demo's."""
        places = dict(_pair(text) for text in replica)
        call_command("migrate", interactive=False, verbosity=0)
        left = prepare(
            Plan(
                demo_file=settings.FAIRLANE_DATA_DIR / "demo.json",
                demo_url=demo,
                running=running,
                idle=idle,
                places=places,
            )
        )
        if left:
            self.stderr.write(
                f"fairlane: not in the fleet: {', '.join(left)}. There are replicas or models of"
                " your own of these names, which the demo leaves alone."
            )


def _pair(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not equals:
        raise CommandError(f"--replica {text}: NAME=URL is wanted")
    return name, url
