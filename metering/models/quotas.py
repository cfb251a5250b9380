"""Limits of single keys, and what owners ask of operations."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from .business import Business
from .keys import ApiKey


class KeyQuota(models.Model):
    """Limits of one API key, beside those of its business: the narrower one binds.

    null is unlimited and 0 is blocked, as in Quota; no row: no limits of its own.
    """

    key = models.OneToOneField(ApiKey, on_delete=models.CASCADE, related_name="quota")
    requests_per_s = models.FloatField(null=True, blank=True, validators=[MinValueValidator(0)])
    burst = models.PositiveIntegerField(null=True, blank=True)
    tokens_per_min = models.PositiveBigIntegerField(null=True, blank=True)
    running = models.PositiveIntegerField(null=True, blank=True)
    queued = models.PositiveIntegerField(null=True, blank=True)
    gpu_share = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    monthly_budget = models.DecimalField(
        max_digits=20, decimal_places=6, null=True, blank=True, validators=[MinValueValidator(0)]
    )
    # null: every model of the business; a list: of those only these public names. Last, since
    # inside the class body it hides the module of the same name.
    models = models.JSONField(null=True, blank=True, default=None)

    class Meta:
        verbose_name_plural = "key quotas"

    def __str__(self) -> str:
        return f"quota of {self.key}"


class QuotaRequest(models.Model):
    """What an owner wants beyond the envelope, until operations has decided."""

    class Status(models.TextChoices):
        """Open until it is decided or taken back."""

        OPEN = "open"
        APPROVED = "approved"
        DECLINED = "declined"
        WITHDRAWN = "withdrawn"

    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="quota_requests")
    # Limits by name, only those that are to change; null: unlimited, money as text.
    wanted = models.JSONField()
    reason = models.CharField(max_length=500, blank=True, default="")
    status = models.CharField(max_length=9, choices=Status.choices, default=Status.OPEN)
    # What operations said to it.
    answer = models.CharField(max_length=500, blank=True, default="")
    asked_at = models.DateTimeField(auto_now_add=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )
    decided_at = models.DateTimeField(null=True, blank=True)
    decided_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["business"],
                condition=models.Q(status="open"),
                name="quota_request_one_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} request of {self.business}"
