"""Who changed what, and the versions that tell readers to look again."""

from django.conf import settings
from django.db import models


class AuditBatch(models.Model):
    """A link of the audit's chain: entries that were sealed together (metering/core/chain.py).

    Numbers begin at 1 and have no gaps; ``previous`` is the hash of the batch before.
    """

    number = models.PositiveBigIntegerField(primary_key=True)
    entries = models.PositiveIntegerField()
    previous = models.BinaryField(max_length=32)
    hash = models.BinaryField(max_length=32)
    sealed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        verbose_name_plural = "audit batches"

    def __str__(self) -> str:
        return f"batch {self.number}"


class AuditEntry(models.Model):
    """One change, appended and never edited: a trigger refuses that. What its batch and its
    digest are is written once, when it is sealed."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    # Stays when the person's row has gone, and is what is sealed.
    actor_name = models.CharField(max_length=150, blank=True, default="", db_default="")
    # What did it where no person did: "command line", "system".
    source = models.CharField(max_length=40, default="console")
    action = models.CharField(max_length=60)
    business = models.CharField(max_length=63, blank=True)
    target = models.CharField(max_length=200, blank=True)
    data = models.JSONField(default=dict)
    batch = models.ForeignKey(AuditBatch, on_delete=models.PROTECT, null=True, related_name="+")
    digest = models.BinaryField(max_length=32, null=True)

    class Meta:
        ordering = ["-pk"]
        verbose_name_plural = "audit entries"
        indexes = [
            models.Index(fields=["business", "-id"], name="audit_business"),
            models.Index(fields=["action", "-id"], name="audit_action"),
            models.Index(fields=["id"], name="audit_not_sealed", condition=models.Q(batch=None)),
        ]
        constraints = [
            # Callers cause these, thousands a second if they like: one row for a business and
            # minute (the target), whichever process counts, as long as it is not sealed.
            models.UniqueConstraint(
                fields=["business", "target"],
                condition=models.Q(action="priority.escalation", batch=None),
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
