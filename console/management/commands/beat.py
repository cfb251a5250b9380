"""``manage.py beat``: the clock alone. Two of them do no harm."""

from django.core.management.base import BaseCommand

from console.config.celery import app, make_folders


class Command(BaseCommand):
    """Starts tasks when they are due, for workers that run elsewhere."""

    help = "Start background tasks when they are due; any number may run."
    requires_system_checks: list[str] = []

    def handle(self, *_: object, **__: object) -> None:
        """Until SIGTERM or SIGINT."""
        make_folders()
        app.Beat(scheduler_cls="celery.beat:Scheduler", quiet=True, redirect_stdouts=False).run()
