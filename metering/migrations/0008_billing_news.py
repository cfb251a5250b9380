from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("metering", "0007_billing_rules")]

    operations = [
        migrations.AlterField(
            "changeversion",
            "topic",
            models.CharField(
                choices=[
                    ("access", "Access"),
                    ("fleet", "Fleet"),
                    ("policy", "Policy"),
                    ("books", "Books"),
                ],
                max_length=16,
                primary_key=True,
                serialize=False,
            ),
        ),
        migrations.RemoveConstraint("budgetalert", "alert_once"),
        migrations.AddConstraint(
            "budgetalert",
            models.UniqueConstraint(
                fields=("business", "month", "percent", "budget"), name="alert_once"
            ),
        ),
    ]
