"""Who changed what, and the versions that tell readers to look again."""

from django.conf import settings
from django.db import models


class AuditEntry(models.Model):
    """One change, appended and never edited."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    # What did it where no person did: "command line", "system".
    source = models.CharField(max_length=40, default="console")
    action = models.CharField(max_length=60)
    business = models.CharField(max_length=63, blank=True)
    target = models.CharField(max_length=200, blank=True)
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "audit entries"
        constraints = [
            # Callers cause these, thousands a second if they like: one row for a business and
            # minute (the target), whichever process counts.
            models.UniqueConstraint(
                fields=["business", "target"],
                condition=models.Q(action="priority.escalation"),
                name="audit_one_escalation_a_minute",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.target}"


class ChangeVersion(models.Model):
    """A counter per topic, raised in the transaction that changes it.

    NOTIFY carries the news; this row is the backstop for a listener that missed it.
    """

    class Topic(models.TextChoices):
        """What changed: who may call, where it runs, by which rules, or how the books stand."""

        ACCESS = "access"
        FLEET = "fleet"
        POLICY = "policy"
        BOOKS = "books"

    topic = models.CharField(primary_key=True, max_length=16, choices=Topic.choices)
    version = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.topic} {self.version}"
