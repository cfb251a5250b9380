from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("scheduler", "0004_steering"),
    ]

    operations = [
        migrations.AlterField(
            model_name="decisionlog",
            name="kind",
            field=models.CharField(
                choices=[
                    ("dispatch", "Dispatch"),
                    ("refuse", "Refuse"),
                    ("preempt", "Preempt"),
                    ("promote", "Promote"),
                    ("degrade", "Degrade"),
                    ("outcome", "Outcome"),
                    ("notice", "Notice"),
                    ("replica", "Replica"),
                ],
                max_length=8,
            ),
        ),
    ]
