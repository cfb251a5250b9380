"""What things cost, from when on. A version never changes; another one follows it."""

from decimal import Decimal

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models

PRICE_PLACES = 6
MULTIPLIER_PLACES = 3


def _price() -> "models.DecimalField[Decimal, Decimal]":
    """Money for one unit of something, in BILLING_CURRENCY."""
    return models.DecimalField(
        max_digits=18,
        decimal_places=PRICE_PLACES,
        validators=[MinValueValidator(Decimal(0))],
        default=Decimal(0),
    )


class PriceBook(models.Model):
    """One version of all prices, valid from ``starts_at`` until the next one's.

    A request is priced by the version that was valid when it was accepted. Credit and surcharge
    are money for each preemption: off the bill of who was paused, on the bill of who caused it.
    """

    version = models.PositiveIntegerField(primary_key=True)
    starts_at = models.DateTimeField(unique=True)
    note = models.CharField(max_length=200, blank=True, default="")
    # How many rows of prices belong to it: the database lets none be added later.
    prices_count = models.PositiveIntegerField()
    preemption_credit = _price()
    preemption_surcharge = _price()
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        blank=True,
        related_name="+",
    )

    class Meta:
        ordering = ["-version"]

    def __str__(self) -> str:
        return f"prices {self.version}"


class ModelPrice(models.Model):
    """The prices of one model in one version; of the empty name: of all models not named.

    Tokens are per million. Without a cached price, cached prompt tokens cost what others do.
    What a request costs is multiplied by its lane's multiplier; credit and surcharge are not.
    """

    book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, related_name="prices")
    model = models.CharField(max_length=200, blank=True, default="")
    prompt = _price()
    cached = models.DecimalField(
        max_digits=18,
        decimal_places=PRICE_PLACES,
        validators=[MinValueValidator(Decimal(0))],
        null=True,
        blank=True,
    )
    completion = _price()
    gpu_second = _price()
    request = _price()
    p0 = models.DecimalField(max_digits=9, decimal_places=MULTIPLIER_PLACES, default=Decimal(1))
    p1 = models.DecimalField(max_digits=9, decimal_places=MULTIPLIER_PLACES, default=Decimal(1))
    p2 = models.DecimalField(max_digits=9, decimal_places=MULTIPLIER_PLACES, default=Decimal(1))

    class Meta:
        ordering = ["book", "model"]
        constraints = [
            models.UniqueConstraint(fields=["book", "model"], name="price_once_per_model"),
            models.CheckConstraint(
                condition=models.Q(
                    prompt__gte=0,
                    completion__gte=0,
                    gpu_second__gte=0,
                    request__gte=0,
                    p0__gte=0,
                    p1__gte=0,
                    p2__gte=0,
                ),
                name="price_not_negative",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model or 'any model'} in {self.book_id}"
