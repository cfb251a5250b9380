# ruff: noqa: E501, I001

import django.core.validators
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Business",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "name",
                    models.CharField(
                        max_length=63,
                        unique=True,
                        validators=[
                            django.core.validators.RegexValidator(
                                "\\A[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\Z",
                                "Lower-case letters, digits and hyphens, at most 63, not at the edges.",
                            )
                        ],
                    ),
                ),
                ("tags", models.JSONField(blank=True, default=list)),
                (
                    "grade",
                    models.CharField(
                        choices=[("vip", "Vip"), ("premium", "Premium"), ("basic", "Basic")],
                        default="basic",
                        max_length=8,
                    ),
                ),
                (
                    "ceiling",
                    models.CharField(
                        choices=[("P0", "P0"), ("P1", "P1"), ("P2", "P2")],
                        default="P1",
                        max_length=2,
                    ),
                ),
                (
                    "realtime",
                    models.CharField(
                        blank=True,
                        choices=[("high", "High"), ("medium", "Medium"), ("low", "Low")],
                        default="",
                        max_length=8,
                    ),
                ),
                ("offline", models.BooleanField(default=False)),
                ("billing_sla", models.BooleanField(default=False)),
                (
                    "weight",
                    models.FloatField(
                        default=1.0, validators=[django.core.validators.MinValueValidator(0.001)]
                    ),
                ),
                ("latency_budget_ms", models.PositiveIntegerField(blank=True, null=True)),
                ("suspended_at", models.DateTimeField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("models", models.JSONField(blank=True, default=None, null=True)),
            ],
            options={
                "verbose_name_plural": "businesses",
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="ChangeVersion",
            fields=[
                (
                    "topic",
                    models.CharField(
                        choices=[("access", "Access"), ("fleet", "Fleet"), ("policy", "Policy")],
                        max_length=16,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("version", models.PositiveBigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                ("source", models.CharField(default="console", max_length=40)),
                ("action", models.CharField(max_length=60)),
                ("business", models.CharField(blank=True, max_length=63)),
                ("target", models.CharField(blank=True, max_length=200)),
                ("data", models.JSONField(default=dict)),
                (
                    "actor",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "audit entries",
                "ordering": ["-pk"],
            },
        ),
        migrations.CreateModel(
            name="ApiKey",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=80)),
                ("prefix", models.CharField(max_length=16)),
                ("digest", models.BinaryField(max_length=32, unique=True)),
                (
                    "ceiling",
                    models.CharField(
                        blank=True,
                        choices=[("P0", "P0"), ("P1", "P1"), ("P2", "P2")],
                        default="",
                        max_length=2,
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
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
                (
                    "business",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="keys",
                        to="metering.business",
                    ),
                ),
            ],
            options={
                "ordering": ["-created_at", "-pk"],
            },
        ),
        migrations.CreateModel(
            name="UsageRecord",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=uuid.uuid4, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("business", models.CharField(max_length=63)),
                ("key_prefix", models.CharField(blank=True, max_length=16)),
                ("client_request_id", models.CharField(blank=True, max_length=128)),
                ("operation", models.CharField(max_length=32)),
                ("stream", models.BooleanField(default=False)),
                ("requested_model", models.CharField(blank=True, max_length=200)),
                ("served_model", models.CharField(blank=True, max_length=200)),
                ("claimed", models.CharField(blank=True, max_length=16)),
                ("base_level", models.PositiveSmallIntegerField(null=True)),
                ("level", models.PositiveSmallIntegerField(null=True)),
                ("lane", models.CharField(blank=True, max_length=2)),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("ok", "Ok"),
                            ("refused", "Refused"),
                            ("client_error", "Client Error"),
                            ("client_disconnect", "Client Disconnect"),
                            ("queue_timeout", "Queue Timeout"),
                            ("upstream_error", "Upstream Error"),
                            ("upstream_timeout", "Upstream Timeout"),
                            ("shutting_down", "Shutting Down"),
                            ("internal_error", "Internal Error"),
                        ],
                        max_length=20,
                    ),
                ),
                ("http_status", models.PositiveSmallIntegerField(null=True)),
                ("reason", models.CharField(blank=True, max_length=40)),
                ("received_at", models.DateTimeField()),
                ("dispatched_at", models.DateTimeField(null=True)),
                ("first_byte_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField()),
                ("queue_wait_ms", models.FloatField(default=0)),
                ("prompt_tokens", models.PositiveIntegerField(default=0)),
                ("cached_tokens", models.PositiveIntegerField(default=0)),
                ("completion_tokens", models.PositiveIntegerField(default=0)),
                ("estimated", models.BooleanField(default=False)),
                ("gpu_seconds", models.FloatField(default=0)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("replica", models.CharField(blank=True, max_length=200)),
                ("bytes_in", models.PositiveBigIntegerField(default=0)),
                ("bytes_out", models.PositiveBigIntegerField(default=0)),
                ("trace_id", models.CharField(blank=True, max_length=32)),
            ],
            options={
                "indexes": [
                    models.Index(
                        fields=["business", "-received_at"], name="usage_business_received"
                    ),
                    models.Index(fields=["-received_at"], name="usage_received"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Membership",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[("owner", "Owner"), ("member", "Member")],
                        default="member",
                        max_length=8,
                    ),
                ),
                (
                    "business",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to="metering.business",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="memberships",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("user", "business"), name="membership_once")
                ],
            },
        ),
        migrations.CreateModel(
            name="Quota",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("limit", "Limit"), ("envelope", "Envelope")],
                        default="limit",
                        max_length=8,
                    ),
                ),
                (
                    "requests_per_s",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                    ),
                ),
                ("burst", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens_per_min", models.PositiveBigIntegerField(blank=True, null=True)),
                ("running", models.PositiveIntegerField(blank=True, null=True)),
                ("queued", models.PositiveIntegerField(blank=True, null=True)),
                (
                    "gpu_share",
                    models.FloatField(
                        blank=True,
                        null=True,
                        validators=[
                            django.core.validators.MinValueValidator(0),
                            django.core.validators.MaxValueValidator(1),
                        ],
                    ),
                ),
                (
                    "monthly_budget",
                    models.DecimalField(
                        blank=True,
                        decimal_places=6,
                        max_digits=20,
                        null=True,
                        validators=[django.core.validators.MinValueValidator(0)],
                    ),
                ),
                (
                    "business",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="quotas",
                        to="metering.business",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("business", "kind"), name="quota_once_per_kind"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("requests_per_s__gte", 0), ("requests_per_s", None), _connector="OR"
                        ),
                        name="quota_rate_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("gpu_share__range", (0, 1)), ("gpu_share", None), _connector="OR"
                        ),
                        name="quota_gpu_share_is_a_ratio",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("monthly_budget__gte", 0), ("monthly_budget", None), _connector="OR"
                        ),
                        name="quota_budget_not_negative",
                    ),
                ],
            },
        ),
    ]
