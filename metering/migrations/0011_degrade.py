from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0010_audit_chain"),
    ]

    operations = [
        migrations.AddField(
            model_name="business",
            name="degrade",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="usagerecord",
            name="degraded_to",
            field=models.CharField(blank=True, db_default="", default="", max_length=200),
        ),
    ]
