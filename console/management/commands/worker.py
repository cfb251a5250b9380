"""``manage.py worker``: settlement, bills, alerts and exports, beside the servers."""

from argparse import ArgumentParser

from django.conf import settings
from django.core.management.base import BaseCommand

from console.config.celery import app, make_folders


class Command(BaseCommand):
    """A Celery worker in one process; with ``--beat`` it also keeps the clock."""

    help = "Run what runs by the clock or in the background: one Celery worker."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """--beat."""
        parser.add_argument(
            "--beat", action="store_true", help="also start tasks when they are due"
        )

    def handle(self, *_: object, beat: bool, **__: object) -> None:
        """Work until SIGTERM or SIGINT; a task that has begun is finished."""
        make_folders()
        quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        # Without a file: what is due is told by the tables, not by when a beat last ran.
        clock = ["--beat", "--scheduler", "celery.beat:Scheduler"] if beat else []
        level = settings.LOG_LEVEL.lower()
        app.worker_main(["worker", "--pool", "solo", "--loglevel", level, *quiet, *clock])
