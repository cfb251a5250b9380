"""Connections beside Django's own: for a thread or task that keeps one open for good."""

from django.db import connections
from psycopg.conninfo import make_conninfo


def conninfo(application: str) -> str:
    """libpq's connection string for the database that Django uses. It may hold a password.

    A peer that vanished without a word is noticed within about ten seconds, so that whoever
    waits on the connection can start over.
    """
    held = connections["default"].settings_dict
    named = {
        "dbname": held["NAME"],
        "user": held["USER"],
        "password": held["PASSWORD"],
        "host": held["HOST"],
        "port": held["PORT"],
    }
    options = {name: value for name, value in held["OPTIONS"].items() if name != "pool"}
    defaults = {
        "connect_timeout": 5,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
        "application_name": application,
    }
    given = {name: value for name, value in named.items() if value}
    return make_conninfo(**{**defaults, **given, **options})
