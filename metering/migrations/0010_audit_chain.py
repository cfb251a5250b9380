import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

NAMES = """
UPDATE metering_auditentry SET actor_name = person.username
FROM console_user AS person WHERE person.id = metering_auditentry.actor_id
"""

# Of an entry that is not sealed yet, its seal may be added, and to the count of an escalation.
# Of any, who it was may be forgotten: the name stays.
APPEND_ONLY = """
CREATE FUNCTION fairlane_audit_appends() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    free text[] := '{}';
BEGIN
    IF TG_OP = 'UPDATE' THEN
        IF NEW.actor_id IS NULL THEN
            free := free || '{actor_id}'::text[];
        END IF;
        IF OLD.batch_id IS NULL THEN
            free := free || '{batch_id,digest}'::text[];
            IF OLD.action = 'priority.escalation' THEN
                free := free || '{data}'::text[];
            END IF;
        END IF;
        IF to_jsonb(OLD) - free = to_jsonb(NEW) - free THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'the audit is only ever added to'
        USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER audit_appends BEFORE UPDATE OR DELETE ON metering_auditentry
    FOR EACH ROW EXECUTE FUNCTION fairlane_audit_appends();
"""
NOT_ANY_MORE = """
DROP TRIGGER audit_appends ON metering_auditentry;
DROP FUNCTION fairlane_audit_appends;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0009_grade_requests"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditBatch",
            fields=[
                ("number", models.PositiveBigIntegerField(primary_key=True, serialize=False)),
                ("entries", models.PositiveIntegerField()),
                ("previous", models.BinaryField(max_length=32)),
                ("hash", models.BinaryField(max_length=32)),
                ("sealed_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={
                "verbose_name_plural": "audit batches",
                "ordering": ["-number"],
            },
        ),
        migrations.RemoveConstraint(
            model_name="auditentry",
            name="audit_one_escalation_a_minute",
        ),
        migrations.AddField(
            model_name="auditentry",
            name="actor_name",
            field=models.CharField(blank=True, db_default="", default="", max_length=150),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="digest",
            field=models.BinaryField(max_length=32, null=True),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="batch",
            field=models.ForeignKey(
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="metering.auditbatch",
            ),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["business", "-id"], name="audit_business"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(fields=["action", "-id"], name="audit_action"),
        ),
        migrations.AddIndex(
            model_name="auditentry",
            index=models.Index(
                condition=models.Q(("batch", None)), fields=["id"], name="audit_not_sealed"
            ),
        ),
        migrations.AddConstraint(
            model_name="auditentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("action", "priority.escalation"), ("batch", None)),
                fields=("business", "target"),
                name="audit_one_escalation_a_minute",
            ),
        ),
        migrations.RunSQL(NAMES, migrations.RunSQL.noop),
        migrations.RunSQL(APPEND_ONLY, NOT_ANY_MORE),
    ]
