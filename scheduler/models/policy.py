"""Versions of the policy."""

from django.conf import settings
from django.db import models


class PolicyVersion(models.Model):
    """One complete policy, never edited; at most one version is active."""

    version = models.PositiveIntegerField(unique=True)
    document = models.JSONField()
    # The number of the version that it was made from, where it was.
    base = models.PositiveIntegerField(null=True, blank=True)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    reason = models.CharField(max_length=500, blank=True)
    active = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    activated_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-version"]
        constraints = [
            models.UniqueConstraint(
                fields=["active"], condition=models.Q(active=True), name="policy_one_active"
            ),
        ]

    def __str__(self) -> str:
        return f"policy {self.version}"
