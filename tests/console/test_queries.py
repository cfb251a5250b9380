"""Pages on many rows: as many queries as on few, each led by an index."""

from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

from bench.page_data import Size, fill
from bench.page_list import PAGES
from console.models import User
from metering.models import Business, Membership

from .conftest import person

# What grows with businesses, callers and time.
LARGE = (
    "metering_usagerecord",
    "metering_apikey",
    "metering_dailystatement",
    "metering_auditentry",
    "scheduler_decisionlog",
)
MOST = 20


def browsers() -> dict[str, Client]:
    found = {}
    for role in User.Role.values:
        staff = role == User.Role.ADMIN
        user = person(f"of-{role}", role, is_staff=staff, is_superuser=staff)
        if role == User.Role.OWNER:
            large = Business.objects.get(name="business-1")
            Membership.objects.create(user=user, business=large, role="owner")
        found[role] = Client()
        found[role].force_login(user)
    return found


def counted(client: Client, path: str) -> list[str]:
    """The statements of one request."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200, path
    return [str(query["sql"]) for query in captured.captured_queries]


def plan(statement: str) -> str:
    """How Postgres would run it where reading a whole table costs what it does in earnest."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN {statement}")
        return "\n".join(row[0] for row in cursor.fetchall())


def scanned(statement: str) -> Iterator[str]:
    """Large tables that it reads from end to end."""
    for line in plan(statement).splitlines():
        if "Seq Scan on " in line:
            name = line.split("Seq Scan on ")[1].split()[0]
            if name.startswith(LARGE):
                yield name


@pytest.mark.timeout(240)
@pytest.mark.django_db
def test_a_page_asks_as_often_and_by_index_however_much_there_is() -> None:
    with transaction.atomic():
        fill(Size(businesses=3, keys=6, usage=60))
        people = browsers()
        few = {(role, path): len(counted(people[role], path)) for role, path in PAGES}
        transaction.set_rollback(True)
    fill(Size(businesses=60, keys=600, usage=3_000))
    people = browsers()
    cache.clear()
    for role, path in PAGES:
        statements = counted(people[role], path)
        assert len(statements) <= few[role, path], path
        assert len(statements) <= MOST, path
        reads = [each for each in statements if each.startswith("SELECT")]
        assert {name for each in reads for name in scanned(each)} == set(), path
