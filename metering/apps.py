"""Django's handle on the package."""

from django.apps import AppConfig


class MeteringConfig(AppConfig):
    """Who may use how much, and what they owe."""

    name = "metering"
