from django.db import migrations, models

# Partitioned by hand, which Django has no words for: a day is dropped as a whole.
CREATE = """
CREATE SEQUENCE scheduler_decisionlog_id_seq AS bigint;
CREATE TABLE scheduler_decisionlog (
    id bigint NOT NULL DEFAULT nextval('scheduler_decisionlog_id_seq'),
    at timestamptz NOT NULL,
    kind varchar(8) NOT NULL,
    request varchar(36) NOT NULL,
    other varchar(36) NOT NULL,
    business varchar(63) NOT NULL,
    model varchar(200) NOT NULL,
    lane smallint NULL CHECK (lane >= 0),
    level smallint NULL CHECK (level >= 0),
    attempt smallint NOT NULL CHECK (attempt >= 0),
    replica varchar(200) NOT NULL,
    waited_ms double precision NOT NULL,
    reason varchar(40) NOT NULL,
    detail jsonb NULL,
    PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
ALTER SEQUENCE scheduler_decisionlog_id_seq OWNED BY scheduler_decisionlog.id;
CREATE INDEX decision_request ON scheduler_decisionlog (request);
CREATE INDEX decision_other ON scheduler_decisionlog (other) WHERE NOT other = '';
CREATE INDEX decision_at ON scheduler_decisionlog (at DESC);
"""
DROP = "DROP TABLE scheduler_decisionlog"


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0001_initial")]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, DROP)],
            state_operations=[
                migrations.CreateModel(
                    name="DecisionLog",
                    fields=[
                        (
                            "id",
                            models.BigAutoField(
                                auto_created=True,
                                primary_key=True,
                                serialize=False,
                                verbose_name="ID",
                            ),
                        ),
                        ("at", models.DateTimeField()),
                        (
                            "kind",
                            models.CharField(
                                choices=[
                                    ("dispatch", "Dispatch"),
                                    ("refuse", "Refuse"),
                                    ("preempt", "Preempt"),
                                    ("promote", "Promote"),
                                    ("outcome", "Outcome"),
                                ],
                                max_length=8,
                            ),
                        ),
                        ("request", models.CharField(max_length=36)),
                        ("other", models.CharField(blank=True, default="", max_length=36)),
                        ("business", models.CharField(blank=True, default="", max_length=63)),
                        ("model", models.CharField(blank=True, default="", max_length=200)),
                        ("lane", models.PositiveSmallIntegerField(null=True)),
                        ("level", models.PositiveSmallIntegerField(null=True)),
                        ("attempt", models.PositiveSmallIntegerField(default=0)),
                        ("replica", models.CharField(blank=True, default="", max_length=200)),
                        ("waited_ms", models.FloatField(default=0)),
                        ("reason", models.CharField(blank=True, default="", max_length=40)),
                        ("detail", models.JSONField(blank=True, null=True)),
                    ],
                    options={
                        "indexes": [
                            models.Index(fields=["request"], name="decision_request"),
                            models.Index(
                                condition=models.Q(("other", ""), _negated=True),
                                fields=["other"],
                                name="decision_other",
                            ),
                            models.Index(fields=["-at"], name="decision_at"),
                        ],
                    },
                ),
            ],
        ),
    ]
