"""What the scheduler decided, and why."""

from django.db import models


class DecisionLog(models.Model):
    """One decision about one request, kept for a week in daily partitions by ``at``.

    Compact for most: when, about what, where, how long it had waited. ``detail`` is there for
    those that are worth looking into (decision_log/recorder.py says which).
    """

    class Kind(models.TextChoices):
        """What was decided, or came of an earlier decision."""

        DISPATCH = "dispatch"
        REFUSE = "refuse"
        PREEMPT = "preempt"
        PROMOTE = "promote"
        # A lighter model answers.
        DEGRADE = "degrade"
        OUTCOME = "outcome"
        NOTICE = "notice"
        # A replica was found in a state, which is the reason; about no request.
        REPLICA = "replica"

    at = models.DateTimeField()
    kind = models.CharField(max_length=8, choices=Kind.choices)
    request = models.CharField(max_length=36)
    # The other request of a preemption: who gained, or who yielded.
    other = models.CharField(max_length=36, blank=True, default="")
    business = models.CharField(max_length=63, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    lane = models.PositiveSmallIntegerField(null=True)
    level = models.PositiveSmallIntegerField(null=True)
    attempt = models.PositiveSmallIntegerField(default=0)
    replica = models.CharField(max_length=200, blank=True, default="")
    waited_ms = models.FloatField(default=0)
    reason = models.CharField(max_length=40, blank=True, default="")
    # The version by which the request was decided; 0: the defaults. A writer of an earlier
    # release knows nothing of it.
    policy = models.PositiveIntegerField(default=0, db_default=0)
    detail = models.JSONField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["request"], name="decision_request"),
            models.Index(fields=["other"], name="decision_other", condition=~models.Q(other="")),
            models.Index(fields=["-at"], name="decision_at"),
            models.Index(fields=["kind", "-at"], name="decision_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.request}"
