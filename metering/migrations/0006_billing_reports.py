import uuid
from decimal import Decimal

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

KIND = {"choices": [("mail", "Mail"), ("webhook", "Webhook")], "max_length": 8}


def key():
    return models.BigAutoField(
        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
    )


def number(digits, places):
    return models.DecimalField(max_digits=digits, decimal_places=places, default=Decimal(0))


def child(of, name):
    return models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name=name, to=of)


class Migration(migrations.Migration):
    dependencies = [("metering", "0005_bills")]

    operations = [
        migrations.CreateModel(
            name="BillArchive",
            fields=[
                ("id", key()),
                ("month", models.DateField()),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "Waiting"),
                            ("running", "Running"),
                            ("ready", "Ready"),
                            ("failed", "Failed"),
                        ],
                        default="waiting",
                        max_length=8,
                    ),
                ),
                ("done", models.PositiveIntegerField(default=0)),
                ("total", models.PositiveIntegerField(default=0)),
                ("error", models.CharField(blank=True, default="", max_length=200)),
                ("content", models.BinaryField(null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("touched_at", models.DateTimeField(auto_now=True)),
                (
                    "created_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"ordering": ["-pk"]},
        ),
        migrations.CreateModel(
            name="AlertTarget",
            fields=[
                ("id", key()),
                ("business", child("metering.business", "alert_targets")),
                ("kind", models.CharField(**KIND)),
                ("address", models.CharField(max_length=500)),
                ("sealed", models.BinaryField(default=b"", max_length=256)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["business", "kind", "address"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("business", "kind", "address"), name="alert_target_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BudgetAlert",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("business", models.CharField(max_length=63)),
                ("month", models.DateField()),
                ("percent", models.PositiveSmallIntegerField()),
                ("spent", number(40, 18)),
                ("budget", number(40, 18)),
                ("at", models.DateTimeField()),
            ],
            options={
                "ordering": ["-at"],
                "constraints": [
                    models.UniqueConstraint(
                        fields=("business", "month", "percent"), name="alert_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="AlertDelivery",
            fields=[
                ("id", key()),
                ("alert", child("metering.budgetalert", "deliveries")),
                ("kind", models.CharField(**KIND)),
                ("address", models.CharField(max_length=500)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("next_at", models.DateTimeField()),
                ("sent_at", models.DateTimeField(null=True)),
                ("error", models.CharField(blank=True, default="", max_length=200)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("alert", "kind", "address"), name="alert_delivery_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="GpuHour",
            fields=[
                ("id", key()),
                ("process", models.UUIDField()),
                ("replica", models.CharField(max_length=200)),
                ("hour", models.DateTimeField(db_index=True)),
                ("wall_seconds", number(24, 9)),
                ("busy_seconds", number(24, 9)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("process", "replica", "hour"), name="gpu_hour_once"
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="ReconciliationReport",
            fields=[
                ("id", key()),
                ("month", models.DateField()),
                ("at", models.DateTimeField()),
                ("differences", models.PositiveIntegerField()),
                ("data", models.JSONField(default=dict)),
            ],
            options={
                "ordering": ["-at"],
                "indexes": [
                    models.Index(fields=["month", "-at"], name="reconciliation_month"),
                ],
            },
        ),
    ]
