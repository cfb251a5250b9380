"""Alerts before the budget is spent, and how the books compare with each other."""

import uuid

from django.db import models

from .business import Business
from .statements import exact_money, gpu_time


class AlertTarget(models.Model):
    """Where a business hears of its budget, beside its owners' own mail addresses.

    ``sealed`` is the webhook's signing secret, encrypted (metering/sealing.py).
    """

    class Kind(models.TextChoices):
        """By mail or by a signed POST."""

        MAIL = "mail"
        WEBHOOK = "webhook"

    business = models.ForeignKey(Business, on_delete=models.CASCADE, related_name="alert_targets")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    address = models.CharField(max_length=500)
    sealed = models.BinaryField(max_length=256, editable=False, default=b"")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["business", "kind", "address"]
        constraints = [
            models.UniqueConstraint(
                fields=["business", "kind", "address"], name="alert_target_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.business}"


class BudgetAlert(models.Model):
    """A business has spent ``percent`` of a month's budget: said once for each budget."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    business = models.CharField(max_length=63)
    month = models.DateField()
    percent = models.PositiveSmallIntegerField()
    spent = exact_money()
    budget = exact_money()
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(
                fields=["business", "month", "percent", "budget"], name="alert_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.business} {self.month:%Y-%m} {self.percent} %"


class AlertDelivery(models.Model):
    """One alert on its way to one address."""

    alert = models.ForeignKey(BudgetAlert, on_delete=models.CASCADE, related_name="deliveries")
    kind = models.CharField(max_length=8, choices=AlertTarget.Kind.choices)
    address = models.CharField(max_length=500)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["alert", "kind", "address"], name="alert_delivery_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.alert} by {self.kind}"


class GpuHour(models.Model):
    """GPU time of one replica in one hour (UTC), as one gateway process saw it.

    ``wall_seconds`` is time times cards while the replica was known, ``busy_seconds`` the part
    with a request on it: both GPU-seconds.
    """

    process = models.UUIDField()
    replica = models.CharField(max_length=200)
    hour = models.DateTimeField(db_index=True)
    wall_seconds = gpu_time()
    busy_seconds = gpu_time()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["process", "replica", "hour"], name="gpu_hour_once"),
        ]

    def __str__(self) -> str:
        return f"{self.replica} {self.hour}"


class ReconciliationReport(models.Model):
    """How usage rows, statements and bills of a month compared at one moment."""

    month = models.DateField()
    at = models.DateTimeField()
    differences = models.PositiveIntegerField()
    data = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at"]
        indexes = [models.Index(fields=["month", "-at"], name="reconciliation_month")]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}: {self.differences} differences"
