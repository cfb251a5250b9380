"""Django's handle on the package."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """What people see."""

    name = "console"
