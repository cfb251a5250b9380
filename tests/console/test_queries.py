"""The number of queries of a page does not grow with what is on it."""

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from metering.models import ApiKey, Business, Membership, UsageRecord

from .conftest import People

Browser = Callable[[str], Client]


def fill(people: People, number: int) -> None:
    """That many requests and keys of alpha, and businesses around it."""
    now = timezone.now()
    UsageRecord.objects.bulk_create(
        UsageRecord(
            business="alpha" if each % 2 else f"other-{each}",
            operation="chat.completions",
            lane=("P0", "P1", "P2")[each % 3],
            status=("ok", "refused")[each % 7 == 0],
            reason=f"reason-{each % 5}" if each % 7 == 0 else "",
            received_at=now - timedelta(seconds=each),
            dispatched_at=now - timedelta(seconds=each),
            finished_at=now,
        )
        for each in range(number)
    )
    ApiKey.objects.bulk_create(
        ApiKey(
            business=people.alpha,
            name=str(each),
            prefix="fl_live_test",
            digest=uuid.uuid4().bytes * 2,
        )
        for each in range(number)
    )
    others = [Business(name=f"more-{number}-{each}") for each in range(number // 10)]
    Business.objects.bulk_create(others)
    Membership.objects.bulk_create(
        Membership(user=people.owner, business=each, role="member") for each in others
    )


def queries(browser: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert browser.get(path).status_code == 200
    return len(captured)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("owner", "/"),
        ("owner", "/keys/"),
        ("operator", "/ops/live/"),
        ("finance", "/finance/usage/"),
        ("admin", "/admin/metering/business/"),
        ("admin", "/admin/console/user/"),
    ],
)
def test_a_page_asks_as_often_for_much_as_for_little(
    signed_in: Browser, people: People, name: str, path: str
) -> None:
    browser = signed_in(name)
    fill(people, 10)
    few = queries(browser, path)
    fill(people, 300)
    assert queries(browser, path) == few <= 12
