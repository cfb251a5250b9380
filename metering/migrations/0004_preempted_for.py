from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0003_preemptions"),
    ]

    operations = [
        migrations.AddField(
            model_name="usagerecord",
            name=name,
            field=models.CharField(blank=True, default="", max_length=36),
        )
        for name in ("preempted_for", "displaced")
    ]
