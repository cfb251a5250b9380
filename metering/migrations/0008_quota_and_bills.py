"""Two parts of the books that grew side by side."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("metering", "0005_quota"),
        ("metering", "0007_billing_rules"),
    ]

    operations = []
