import django.core.validators
import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="ModelDeployment",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                (
                    "weight",
                    models.CharField(
                        choices=[("light", "Light"), ("medium", "Medium"), ("heavy", "Heavy")],
                        default="medium",
                        max_length=8,
                    ),
                ),
                ("task", models.CharField(default="chat", max_length=40)),
                ("realtime", models.CharField(blank=True, default="", max_length=8)),
                ("offline", models.BooleanField(default=False)),
                (
                    "kind",
                    models.CharField(
                        choices=[("generative", "Generative"), ("fixed", "Fixed")],
                        default="generative",
                        max_length=12,
                    ),
                ),
                ("lighter_of", models.CharField(blank=True, default="", max_length=200)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Pool",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=63, unique=True)),
                (
                    "kind",
                    models.CharField(
                        choices=[("dedicated", "Dedicated"), ("elastic", "Elastic")],
                        default="elastic",
                        max_length=10,
                    ),
                ),
                ("lanes", models.JSONField(default=list)),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="Replica",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.CharField(max_length=200, unique=True)),
                ("url", models.CharField(max_length=500)),
                (
                    "engine",
                    models.CharField(
                        choices=[
                            ("vllm", "Vllm"),
                            ("sglang", "Sglang"),
                            ("tgi", "Tgi"),
                            ("llamacpp", "Llamacpp"),
                            ("oip", "Oip"),
                            ("openai", "Openai"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "slots",
                    models.PositiveIntegerField(
                        default=8, validators=[django.core.validators.MinValueValidator(1)]
                    ),
                ),
                (
                    "gpus",
                    models.FloatField(
                        default=1, validators=[django.core.validators.MinValueValidator(0)]
                    ),
                ),
                ("kv_tokens", models.PositiveBigIntegerField(blank=True, null=True)),
                (
                    "service_class",
                    models.CharField(
                        choices=[("high", "High"), ("medium", "Medium"), ("low", "Low")],
                        default="medium",
                        max_length=8,
                    ),
                ),
                (
                    "least_level",
                    models.PositiveSmallIntegerField(
                        default=0, validators=[django.core.validators.MaxValueValidator(9)]
                    ),
                ),
                (
                    "most_level",
                    models.PositiveSmallIntegerField(
                        default=9, validators=[django.core.validators.MaxValueValidator(9)]
                    ),
                ),
                (
                    "path",
                    models.CharField(
                        choices=[("hot", "Hot"), ("cold", "Cold")], default="hot", max_length=4
                    ),
                ),
                ("engine_priority", models.BooleanField(default=False)),
                ("token_file", models.CharField(blank=True, default="", max_length=500)),
                ("metrics_url", models.CharField(blank=True, default="", max_length=500)),
                ("dcgm_url", models.CharField(blank=True, default="", max_length=500)),
                ("draining", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("models", models.JSONField(default=dict)),
                (
                    "pool",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="replicas",
                        to="scheduler.pool",
                    ),
                ),
            ],
            options={
                "ordering": ["name"],
            },
        ),
        migrations.CreateModel(
            name="PolicyVersion",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("version", models.PositiveIntegerField(unique=True)),
                ("document", models.JSONField()),
                ("reason", models.CharField(blank=True, max_length=500)),
                ("active", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("activated_at", models.DateTimeField(blank=True, null=True)),
                (
                    "author",
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
                "ordering": ["-version"],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("active", True)),
                        fields=("active",),
                        name="policy_one_active",
                    )
                ],
            },
        ),
    ]
