from decimal import Decimal

import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

LANE = ("lane", models.CharField(blank=True, max_length=2))
MODEL = ("model", models.CharField(blank=True, max_length=200))


def key():
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def person():
    return models.ForeignKey(
        blank=True,
        null=True,
        on_delete=django.db.models.deletion.SET_NULL,
        related_name="+",
        to=settings.AUTH_USER_MODEL,
    )


def number(digits, places):
    return models.DecimalField(max_digits=digits, decimal_places=places, default=Decimal(0))


def price(**options):
    return models.DecimalField(
        max_digits=18,
        decimal_places=6,
        validators=[django.core.validators.MinValueValidator(Decimal(0))],
        **(options or {"default": Decimal(0)}),
    )


def multiplier():
    return models.DecimalField(max_digits=9, decimal_places=3, default=Decimal(1))


def rounded(**options):
    return models.DecimalField(max_digits=24, decimal_places=4, **options)


def name():
    return models.CharField(max_length=63)


def versions():
    return [
        ("first_price", models.PositiveIntegerField(null=True)),
        ("last_price", models.PositiveIntegerField(null=True)),
    ]


def figures():
    counts = ("requests", "billed_requests", "prompt_tokens", "cached_tokens", "completion_tokens")
    more = ("preempted", "displaced", "estimated", "clamped")
    return [
        *((count, models.PositiveBigIntegerField(default=0)) for count in counts + more),
        *((time, number(24, 9)) for time in ("gpu_seconds", "billed_gpu_seconds")),
        *((money, number(40, 18)) for money in ("charge", "credit", "surcharge", "amount")),
    ]


def at():
    return models.DateTimeField()


PRICES = [
    migrations.CreateModel(
        name="PriceBook",
        fields=[
            ("version", models.PositiveIntegerField(primary_key=True, serialize=False)),
            ("starts_at", models.DateTimeField(unique=True)),
            ("note", models.CharField(blank=True, default="", max_length=200)),
            ("prices_count", models.PositiveIntegerField()),
            ("preemption_credit", price()),
            ("preemption_surcharge", price()),
            ("created_at", models.DateTimeField(auto_now_add=True)),
            ("created_by", person()),
        ],
        options={"ordering": ["-version"]},
    ),
    migrations.CreateModel(
        name="ModelPrice",
        fields=[
            ("id", key()),
            (
                "book",
                models.ForeignKey(
                    on_delete=django.db.models.deletion.PROTECT,
                    related_name="prices",
                    to="metering.pricebook",
                ),
            ),
            ("model", models.CharField(blank=True, default="", max_length=200)),
            ("cached", price(null=True, blank=True)),
            *((what, price()) for what in ("prompt", "completion", "gpu_second", "request")),
            *((lane, multiplier()) for lane in ("p0", "p1", "p2")),
        ],
        options={
            "ordering": ["book", "model"],
            "constraints": [
                models.UniqueConstraint(fields=("book", "model"), name="price_once_per_model"),
                models.CheckConstraint(
                    condition=models.Q(
                        ("completion__gte", 0),
                        ("gpu_second__gte", 0),
                        ("p0__gte", 0),
                        ("p1__gte", 0),
                        ("p2__gte", 0),
                        ("prompt__gte", 0),
                        ("request__gte", 0),
                    ),
                    name="price_not_negative",
                ),
            ],
        },
    ),
]

STATEMENTS = [
    migrations.CreateModel(
        name="DailyStatement",
        fields=[
            ("id", key()),
            *figures(),
            ("business", name()),
            ("day", models.DateField()),
            MODEL,
            LANE,
            *versions(),
            ("settled_at", at()),
        ],
        options={
            "ordering": ["day", "business", "lane", "model"],
            "indexes": [models.Index(fields=["day"], name="statement_day")],
            "constraints": [
                models.UniqueConstraint(
                    fields=("business", "day", "model", "lane"), name="statement_once"
                ),
            ],
        },
    ),
    migrations.CreateModel(
        name="Adjustment",
        fields=[
            ("id", key()),
            *figures(),
            ("billed_in", models.DateField()),
            ("business", name()),
            ("day", models.DateField()),
            MODEL,
            LANE,
            *versions(),
            ("settled_at", at()),
        ],
        options={
            "ordering": ["billed_in", "business", "day", "lane", "model"],
            "constraints": [
                models.UniqueConstraint(
                    fields=("billed_in", "business", "day", "model", "lane"), name="adjustment_once"
                ),
            ],
        },
    ),
    migrations.CreateModel(
        name="UsageHour",
        fields=[
            ("id", key()),
            *figures(),
            ("business", name()),
            ("day", models.DateField()),
            ("hour", at()),
            MODEL,
            LANE,
        ],
        options={
            "ordering": ["hour", "business", "lane", "model"],
            "indexes": [models.Index(fields=["business", "hour"], name="usage_hour_business")],
            "constraints": [
                models.UniqueConstraint(
                    fields=("day", "hour", "business", "model", "lane"), name="usage_hour_once"
                ),
            ],
        },
    ),
    migrations.CreateModel(
        name="DaySettlement",
        fields=[
            ("day", models.DateField(primary_key=True, serialize=False)),
            ("rows", models.PositiveBigIntegerField(default=0)),
            ("settled_at", at()),
        ],
    ),
    migrations.CreateModel(
        name="LateUsage",
        fields=[
            ("id", key()),
            ("at", models.DateTimeField(db_index=True)),
            ("billed_in", models.DateField(null=True)),
        ],
    ),
    migrations.CreateModel(
        name="BillingClock",
        fields=[
            (
                "id",
                models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False),
            ),
            ("settled_until", at()),
            ("closed_until", models.DateTimeField(null=True)),
            ("open_month", models.DateField(null=True)),
            ("rows_since", models.DateTimeField(null=True)),
        ],
        options={
            "constraints": [
                models.CheckConstraint(condition=models.Q(("id", 1)), name="billing_clock_is_one"),
            ],
        },
    ),
    migrations.CreateModel(
        name="MonthClose",
        fields=[
            ("month", models.DateField(primary_key=True, serialize=False)),
            ("starts_at", at()),
            ("ends_at", at()),
            ("closed_at", at()),
            ("billed_at", models.DateTimeField(null=True)),
        ],
        options={"ordering": ["-month"]},
    ),
]


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0004_preempted_for"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        *PRICES,
        *STATEMENTS,
        migrations.AddField("usagerecord", "price_version", models.PositiveIntegerField(null=True)),
        migrations.AddField("usagerecord", "billed_in", models.DateField(null=True)),
        migrations.AddIndex(
            "usagerecord",
            models.Index(
                condition=models.Q(("billed_in__isnull", False)),
                fields=["billed_in"],
                name="usage_billed_in",
            ),
        ),
        migrations.CreateModel(
            name="NumberSeries",
            fields=[
                ("name", models.CharField(max_length=16, primary_key=True, serialize=False)),
                ("last", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Bill",
            fields=[
                ("id", key()),
                ("number", models.PositiveBigIntegerField(unique=True)),
                ("business", name()),
                ("month", models.DateField()),
                ("starts_at", at()),
                ("ends_at", at()),
                ("timezone", models.CharField(max_length=64)),
                ("currency", models.CharField(max_length=3)),
                ("total", rounded()),
                ("exact", number(40, 18)),
                ("lines_count", models.PositiveIntegerField()),
                *versions(),
                ("issued_at", at()),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.UniqueConstraint(fields=("business", "month"), name="bill_once_a_month"),
                ],
            },
        ),
        migrations.CreateModel(
            name="BillLine",
            fields=[
                ("id", key()),
                *figures(),
                (
                    "bill",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="lines",
                        to="metering.bill",
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[("usage", "Usage"), ("adjustment", "Adjustment")], max_length=10
                    ),
                ),
                ("usage_month", models.DateField()),
                MODEL,
                LANE,
                ("rounded", rounded()),
            ],
            options={
                "ordering": ["bill", "position"],
                "constraints": [
                    models.UniqueConstraint(fields=("bill", "position"), name="bill_line_position"),
                    models.UniqueConstraint(
                        fields=("bill", "usage_month", "lane", "model"), name="bill_line_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CreditNote",
            fields=[
                ("id", key()),
                ("number", models.PositiveBigIntegerField(unique=True)),
                (
                    "bill",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="credit_notes",
                        to="metering.bill",
                    ),
                ),
                (
                    "amount",
                    rounded(
                        validators=[django.core.validators.MinValueValidator(Decimal("0.0001"))]
                    ),
                ),
                ("reason", models.CharField(max_length=500)),
                ("issued_at", at()),
                ("issued_by", person()),
            ],
            options={
                "ordering": ["-number"],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("amount__gt", 0)), name="credit_note_positive"
                    ),
                ],
            },
        ),
    ]
