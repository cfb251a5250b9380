"""``manage.py up``: everything in the foreground, as ``make up`` starts it."""

import sys
from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand

from console.config.env import Env
from console.up.options import read_options
from console.up.run import up


class Command(BaseCommand):
    """See the package ``console.up``."""

    help = "Start database, server and demo in the foreground until Ctrl-C."
    # The database may not run yet.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """The port; the rest comes from the environment."""
        parser.add_argument("--port", type=int, help="where console and gateway listen")

    def handle(self, *_: object, port: int | None, **__: object) -> None:
        """Run until told to stop; the exit status says how it went."""
        options = read_options(
            Env(), root=settings.BASE_DIR, data_dir=settings.FAIRLANE_DATA_DIR, port=port
        )
        sys.exit(up(options))
