"""Telling every process that something it holds a snapshot of has changed."""

from django.db import connection, transaction

from metering.models import ChangeVersion

CHANNEL = "fairlane"


def announce(topic: ChangeVersion.Topic) -> None:
    """Raise the version of ``topic`` and notify listeners, both when the transaction commits.

    The version row stays locked until then, so versions rise in the order of commits. A
    transaction that announces several topics does so in the order access, fleet, policy:
    two that wait for each other's rows would be a deadlock.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO metering_changeversion AS held (topic, version) VALUES (%s, 1)"
            " ON CONFLICT (topic) DO UPDATE SET version = held.version + 1",
            [topic.value],
        )
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, topic.value])
