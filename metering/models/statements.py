"""What was used and what it costs: by hour, by day, and late."""

from decimal import Decimal

from django.db import models

# Exact: a price has 6 places for a million tokens or a second in nanoseconds (9), a multiplier 3.
MONEY_DIGITS, MONEY_PLACES = 40, 18
GPU_DIGITS, GPU_PLACES = 24, 9


def exact_money() -> "models.DecimalField[Decimal, Decimal]":
    """A column for money that is never rounded."""
    return models.DecimalField(
        max_digits=MONEY_DIGITS, decimal_places=MONEY_PLACES, default=Decimal(0)
    )


def gpu_time() -> "models.DecimalField[Decimal, Decimal]":
    """A column for GPU-seconds, to the nanosecond."""
    return models.DecimalField(max_digits=GPU_DIGITS, decimal_places=GPU_PLACES, default=Decimal(0))


class Figures(models.Model):
    """Sums over usage rows. ``requests`` and ``gpu_seconds`` are of all of them; tokens,
    preemptions and money of those that are charged (``billed_requests``).

    ``amount`` = ``charge`` + ``surcharge`` - ``credit``. ``clamped`` counts rows with more
    cached than prompt tokens, ``estimated`` those whose engine reported none.
    """

    requests = models.PositiveBigIntegerField(default=0)
    billed_requests = models.PositiveBigIntegerField(default=0)
    prompt_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    completion_tokens = models.PositiveBigIntegerField(default=0)
    gpu_seconds = gpu_time()
    billed_gpu_seconds = gpu_time()
    preempted = models.PositiveBigIntegerField(default=0)
    displaced = models.PositiveBigIntegerField(default=0)
    estimated = models.PositiveBigIntegerField(default=0)
    clamped = models.PositiveBigIntegerField(default=0)
    charge = exact_money()
    credit = exact_money()
    surcharge = exact_money()
    amount = exact_money()

    class Meta:
        abstract = True


class DailyStatement(Figures):
    """One business, day (in BILLING_TZ), model and lane. Rows that never ran have no model.

    ``first_price`` and ``last_price`` are the price versions of the day's requests; null:
    accepted before there was a price.
    """

    business = models.CharField(max_length=63)
    day = models.DateField()
    model = models.CharField(max_length=200, blank=True)
    lane = models.CharField(max_length=2, blank=True)
    first_price = models.PositiveIntegerField(null=True)
    last_price = models.PositiveIntegerField(null=True)
    settled_at = models.DateTimeField()

    class Meta:
        ordering = ["day", "business", "lane", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["business", "day", "model", "lane"], name="statement_once"
            ),
        ]
        indexes = [models.Index(fields=["day"], name="statement_day")]

    def __str__(self) -> str:
        return f"{self.business} {self.day} {self.lane} {self.model}"


class Adjustment(Figures):
    """Usage of a closed month that arrived later: it goes on the bill of ``billed_in``."""

    billed_in = models.DateField()
    business = models.CharField(max_length=63)
    day = models.DateField()
    model = models.CharField(max_length=200, blank=True)
    lane = models.CharField(max_length=2, blank=True)
    first_price = models.PositiveIntegerField(null=True)
    last_price = models.PositiveIntegerField(null=True)
    settled_at = models.DateTimeField()

    class Meta:
        ordering = ["billed_in", "business", "day", "lane", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["billed_in", "business", "day", "model", "lane"], name="adjustment_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.business} {self.day} {self.lane} {self.model} on {self.billed_in:%Y-%m}"


class UsageHour(Figures):
    """An hour (UTC) of a settled day; kept when the rows are gone. Half-hour zones split an
    hour between two days. What came after its month was closed is in the adjustments alone."""

    business = models.CharField(max_length=63)
    day = models.DateField()
    hour = models.DateTimeField()
    model = models.CharField(max_length=200, blank=True)
    lane = models.CharField(max_length=2, blank=True)

    class Meta:
        ordering = ["hour", "business", "lane", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["day", "hour", "business", "model", "lane"], name="usage_hour_once"
            ),
        ]
        indexes = [models.Index(fields=["business", "hour"], name="usage_hour_business")]

    def __str__(self) -> str:
        return f"{self.business} {self.hour} {self.lane} {self.model}"


class DaySettlement(models.Model):
    """A day that is over and was settled; ``rows`` is how many usage rows it had then."""

    day = models.DateField(primary_key=True)
    rows = models.PositiveBigIntegerField(default=0)
    settled_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.day)


class LateUsage(models.Model):
    """A usage row that arrived after its day was settled: the day is settled again."""

    at = models.DateTimeField(db_index=True)
    # The month of the bill that it goes on, where its own was closed.
    billed_in = models.DateField(null=True)

    def __str__(self) -> str:
        return f"late: {self.at}"


class BillingClock(models.Model):
    """How far settlement and month close have come; one row.

    A trigger reads it at each usage row. Both moments only move forward, and only while no
    insert is under way: a row is on one side of them or on the other.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    settled_until = models.DateTimeField()
    closed_until = models.DateTimeField(null=True)
    # The first day of the first month that is not closed; null while none ever was.
    open_month = models.DateField(null=True)
    # Older rows may have been dropped by retention.
    rows_since = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="billing_clock_is_one"),
        ]

    def __str__(self) -> str:
        return f"settled until {self.settled_until}"


class MonthClose(models.Model):
    """A month that takes no more rows; once ``billed_at`` is set, all its bills are issued."""

    month = models.DateField(primary_key=True)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    closed_at = models.DateTimeField()
    billed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-month"]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m}"
