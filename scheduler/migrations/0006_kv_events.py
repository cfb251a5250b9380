from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0005_degrade"),
    ]

    operations = [
        migrations.AddField(
            model_name="replica",
            name="kv_events_url",
            field=models.CharField(blank=True, default="", max_length=500),
        ),
    ]
