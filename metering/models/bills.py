"""Bills and credit notes: issued once, never changed. The database itself sees to that."""

from decimal import Decimal

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

from .statements import Figures, exact_money


class NumberSeries(models.Model):
    """The last number given out. Taken in the transaction that uses it, so there are no gaps."""

    name = models.CharField(primary_key=True, max_length=16)
    last = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.name} {self.last}"


class Bill(models.Model):
    """What one business owes for one month (its first day). ``total`` is rounded to
    the currency's smallest unit and is the sum of the lines' amounts; ``exact`` is not rounded."""

    number = models.PositiveBigIntegerField(unique=True)
    business = models.CharField(max_length=63)
    month = models.DateField()
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    timezone = models.CharField(max_length=64)
    currency = models.CharField(max_length=3)
    total = models.DecimalField(max_digits=24, decimal_places=4)
    exact = exact_money()
    lines_count = models.PositiveIntegerField()
    first_price = models.PositiveIntegerField(null=True)
    last_price = models.PositiveIntegerField(null=True)
    issued_at = models.DateTimeField()

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["business", "month"], name="bill_once_a_month"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The number as people write it."""
        return f"B-{self.number:06d}"


class BillLine(Figures):
    """One lane and model of a bill. The inherited money is exact; ``rounded`` is what counts.

    An adjustment is usage of ``usage_month``, which was closed when it arrived.
    """

    class Kind(models.TextChoices):
        """Of the bill's own month, or of an earlier one."""

        USAGE = "usage"
        ADJUSTMENT = "adjustment"

    bill = models.ForeignKey(Bill, on_delete=models.PROTECT, related_name="lines")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Kind.choices)
    usage_month = models.DateField()
    model = models.CharField(max_length=200, blank=True)
    lane = models.CharField(max_length=2, blank=True)
    rounded = models.DecimalField(max_digits=24, decimal_places=4)

    class Meta:
        ordering = ["bill", "position"]
        constraints = [
            models.UniqueConstraint(fields=["bill", "position"], name="bill_line_position"),
            models.UniqueConstraint(
                fields=["bill", "usage_month", "lane", "model"], name="bill_line_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.bill} line {self.position}"


class CreditNote(models.Model):
    """Money given back on a bill, with the reason. A bill itself is never edited."""

    number = models.PositiveBigIntegerField(unique=True)
    bill = models.ForeignKey(Bill, on_delete=models.PROTECT, related_name="credit_notes")
    amount = models.DecimalField(
        max_digits=24, decimal_places=4, validators=[MinValueValidator(Decimal("0.0001"))]
    )
    reason = models.CharField(max_length=500)
    issued_at = models.DateTimeField()
    issued_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="credit_note_positive"),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """The number as people write it."""
        return f"C-{self.number:06d}"


class BillArchive(models.Model):
    """A zip of all bills of a month, made in the background."""

    class State(models.TextChoices):
        """Where it stands."""

        WAITING = "waiting"
        RUNNING = "running"
        READY = "ready"
        FAILED = "failed"

    month = models.DateField()
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    done = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    error = models.CharField(max_length=200, blank=True, default="")
    content = models.BinaryField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    # When the process that makes it last gave a sign of life.
    touched_at = models.DateTimeField(auto_now=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )

    class Meta:
        ordering = ["-pk"]

    def __str__(self) -> str:
        return f"bills of {self.month:%Y-%m}, {self.state}"
