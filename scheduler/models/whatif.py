"""What-if runs: recorded or made-up traffic under a draft and under the active policy."""

from django.conf import settings
from django.db import models

from .policy import PolicyVersion


class WhatIf(models.Model):
    """One run in the background. Traffic is that of a window, or of a named scenario."""

    class State(models.TextChoices):
        """How far it is."""

        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"

    version = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="what_ifs")
    # The number of the version that was active then; 0: the defaults.
    against = models.PositiveIntegerField()
    scenario = models.CharField(max_length=100, blank=True, default="")
    begin = models.DateTimeField(null=True, blank=True)
    end = models.DateTimeField(null=True, blank=True)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    progress = models.FloatField(default=0)
    # A run that has been silent for long has died with its process.
    beat_at = models.DateTimeField(auto_now_add=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    error = models.CharField(max_length=500, blank=True, default="")
    result = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"what-if of {self.version}"
