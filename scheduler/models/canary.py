"""Canaries: a draft policy tried on some businesses."""

from django.conf import settings
from django.db import models

from .policy import PolicyVersion


class Canary(models.Model):
    """One trial of a version's per-request fields. One at most runs.

    ``tallies`` are counts of both groups (scheduler/canary/tally.py), added to by gateways;
    ``limits`` are those of scheduler/canary/judging.py, ``figures`` what it came to.
    """

    class State(models.TextChoices):
        """How far it is."""

        RUNNING = "running"
        ROLLED_BACK = "rolled_back"
        ENDED = "ended"
        SUPERSEDED = "superseded"

    version = models.ForeignKey(PolicyVersion, on_delete=models.PROTECT, related_name="canaries")
    businesses = models.JSONField(default=list)
    limits = models.JSONField(default=dict)
    state = models.CharField(max_length=12, choices=State.choices, default=State.RUNNING)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    reason = models.CharField(max_length=500, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    tallies = models.JSONField(default=dict)
    figures = models.JSONField(default=dict)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "canaries"
        constraints = [
            models.UniqueConstraint(
                fields=["state"], condition=models.Q(state="running"), name="canary_one_running"
            ),
        ]

    def __str__(self) -> str:
        return f"canary of {self.version}"
