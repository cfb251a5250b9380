"""``manage.py serve``: one process of one role."""

import argparse
import logging
import resource

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from granian import Granian
from granian.constants import Interfaces
from granian.log import LogLevels

TARGETS = {
    "all": ("console.config.asgi:application", 8000),
    "console": ("console.config.asgi:console_application", 8000),
    "gateway": ("console.config.asgi:gateway_application", 8080),
}
KILL_AFTER_S = 30
# Beyond this the server lets callers wait unseen, in no lane: the queues' own limits, which
# know who is urgent, must be met long before.
MOST_CONNECTIONS = 100_000
BACKLOG = 4096


class Command(BaseCommand):
    """Serve until SIGINT or SIGTERM."""

    help = (
        "Run one process of Fairlane: everything, the console, or the gateway with its scheduler."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """--role, --host, --port."""
        parser.add_argument("--role", choices=[*TARGETS, "scheduler"], default="all")
        parser.add_argument("--host", default="127.0.0.1", help="address to bind (127.0.0.1)")
        parser.add_argument("--port", type=int, help="8000, or 8080 for the gateway alone")

    def handle(self, *args: object, **options: object) -> None:
        """Start the server; returns when it has stopped."""
        role = str(options["role"])
        if role not in TARGETS:
            raise CommandError(
                "a scheduler of its own needs gateways that share it over Redis, which this "
                "version does not offer yet: run --role all, or --role gateway"
            )
        target, port = TARGETS[role]
        _allow_open_files()
        Granian(
            target,
            address=str(options["host"]),
            port=int(str(options["port"] or port)),
            interface=Interfaces.ASGI,
            # The scheduler's state lives in one process: more workers would be more schedulers.
            workers=1,
            websockets=True,
            backlog=BACKLOG,
            backpressure=MOST_CONNECTIONS,
            log_dictconfig=settings.LOGGING,
            log_level=LogLevels(settings.LOG_LEVEL.lower()),
            workers_kill_timeout=KILL_AFTER_S,
        ).serve()
        logging.shutdown()


def _allow_open_files() -> None:
    """As many as the system lets us have: a request that runs needs two."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
