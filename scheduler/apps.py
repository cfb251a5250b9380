"""Django's handle on the package."""

from django.apps import AppConfig


class SchedulerConfig(AppConfig):
    """Who runs now, where, and at whose expense."""

    name = "scheduler"
