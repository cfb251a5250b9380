"""What each request used."""

import uuid

from django.db import models

# What the database itself sets when a row arrives.
SET_ON_ARRIVAL = frozenset({"price_version", "billed_in"})


class UsageRecord(models.Model):
    """One row for each request that got past authentication.

    Names instead of foreign keys: a row outlives the business, key and replica it names,
    and a batch of rows must never fail on one that was deleted meanwhile. Times are when
    the gateway saw them; a null time means it never came to that.
    """

    class Status(models.TextChoices):
        """The one terminal outcome of a request."""

        OK = "ok"
        REFUSED = "refused"
        CLIENT_ERROR = "client_error"
        CLIENT_DISCONNECT = "client_disconnect"
        QUEUE_TIMEOUT = "queue_timeout"
        UPSTREAM_ERROR = "upstream_error"
        UPSTREAM_TIMEOUT = "upstream_timeout"
        SHUTTING_DOWN = "shutting_down"
        INTERNAL_ERROR = "internal_error"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    business = models.CharField(max_length=63)
    key_prefix = models.CharField(max_length=16, blank=True)
    # The id of the tier credential, where one was shown.
    credential = models.CharField(max_length=36, blank=True, default="")
    client_request_id = models.CharField(max_length=128, blank=True)
    operation = models.CharField(max_length=32)
    stream = models.BooleanField(default=False)
    requested_model = models.CharField(max_length=200, blank=True)
    served_model = models.CharField(max_length=200, blank=True)
    # The lighter model of the catalogue that ran in place of the requested one.
    degraded_to = models.CharField(max_length=200, blank=True, default="", db_default="")
    claimed = models.CharField(max_length=16, blank=True)
    base_level = models.PositiveSmallIntegerField(null=True)
    level = models.PositiveSmallIntegerField(null=True)
    lane = models.CharField(max_length=2, blank=True)
    status = models.CharField(max_length=20, choices=Status.choices)
    http_status = models.PositiveSmallIntegerField(null=True)
    reason = models.CharField(max_length=40, blank=True)
    received_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True)
    first_byte_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField()
    queue_wait_ms = models.FloatField(default=0)
    prompt_tokens = models.PositiveIntegerField(default=0)
    cached_tokens = models.PositiveIntegerField(default=0)
    completion_tokens = models.PositiveIntegerField(default=0)
    estimated = models.BooleanField(default=False)
    gpu_seconds = models.FloatField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    preempted = models.PositiveSmallIntegerField(default=0)
    recomputed_tokens = models.PositiveIntegerField(default=0)
    # Ids of the requests that it made room for, and that made room for it: the last of each.
    preempted_for = models.CharField(max_length=36, blank=True, default="")
    displaced = models.CharField(max_length=36, blank=True, default="")
    replica = models.CharField(max_length=200, blank=True)
    bytes_in = models.PositiveBigIntegerField(default=0)
    bytes_out = models.PositiveBigIntegerField(default=0)
    trace_id = models.CharField(max_length=32, blank=True)
    # The prices that were valid when the request was accepted; and, where its month was closed
    # before the row arrived, the month of the bill that it goes on.
    price_version = models.PositiveIntegerField(null=True)
    billed_in = models.DateField(null=True)

    class Meta:
        indexes = [
            models.Index(
                fields=["billed_in"],
                name="usage_billed_in",
                condition=models.Q(billed_in__isnull=False),
            ),
            models.Index(fields=["business", "-received_at"], name="usage_business_received"),
            models.Index(fields=["-received_at"], name="usage_received"),
        ]

    def __str__(self) -> str:
        return f"{self.id} {self.status}"
