"""The Celery application: what runs beside the servers, by the clock or on request.

Tasks are shells around services that are safe to repeat and to run twice at once. So two beats
or two workers do no harm, and what one missed the next makes up for.
"""

import os
from pathlib import Path
from typing import Any

from celery import Celery
from celery.signals import beat_init, setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")

app = Celery("fairlane")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


def keep_logging(**_: object) -> None:
    """Logging is as the settings have it; Celery would put handlers of its own in place."""


def catch_up(**_: object) -> None:
    """Everything once at the start of a beat: nobody knows how long there was none."""
    for entry in app.conf.beat_schedule.values():
        app.send_task(entry["task"], **entry["options"])


setup_logging.connect(keep_logging)
beat_init.connect(catch_up)


def make_folders() -> None:
    """The folders that stand in for a broker, where there is none."""
    options: dict[str, Any] = app.conf.broker_transport_options
    for name in ("data_folder_in", "control_folder"):
        if name in options:
            Path(options[name]).mkdir(mode=0o700, parents=True, exist_ok=True)
