"""Who hears of the budget: addresses added, shown with what was sent there, and removed."""

from collections.abc import Callable
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from metering.models import AlertTarget, AuditEntry, BudgetAlert

from .conftest import People

Browser = Callable[[str], Client]
ADDRESS = "/quotas/alerts/"


def test_mail_is_added_and_removed(people: People, signed_in: Browser) -> None:
    browser = signed_in("owner")
    added = {"business": "alpha", "kind": "mail", "address": " books@alpha.example "}
    assert browser.post(ADDRESS, added).status_code == 302
    (target,) = AlertTarget.objects.all()
    assert (target.business, target.address) == (people.alpha, "books@alpha.example")
    assert "books@alpha.example" in browser.get(ADDRESS).content.decode()
    again = browser.post(ADDRESS, added)
    assert again.status_code == 422
    assert "This address is there already" in again.content.decode()
    assert browser.post(f"{ADDRESS}{target.pk}/remove/").status_code == 302
    assert not AlertTarget.objects.exists()
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", flat=True))
    assert actions[-2:] == ["alerts.add", "alerts.remove"]


def test_the_secret_of_a_webhook_is_shown_once(people: People, signed_in: Browser) -> None:
    browser = signed_in("owner")
    # An address and no name: nothing is looked up.
    added = {"business": "alpha", "kind": "webhook", "address": "https://93.184.216.34/hook"}
    shown = browser.post(ADDRESS, added)
    assert shown.status_code == 200
    secret = shown.context["secret"]
    assert len(secret) > 40
    assert secret in shown.content.decode()
    assert secret not in browser.get(ADDRESS).content.decode()


@pytest.mark.parametrize(
    ("kind", "address", "problem"),
    [
        ("mail", "nobody", "This is no mail address"),
        ("webhook", "https://127.0.0.1/hook", "public internet"),
        ("pigeon", "books@alpha.example", "Select a valid choice"),
    ],
)
def test_a_wrong_address_is_refused_at_its_field(
    people: People, signed_in: Browser, kind: str, address: str, problem: str
) -> None:
    wrong = {"business": "alpha", "kind": kind, "address": address}
    answer = signed_in("owner").post(ADDRESS, wrong)
    assert answer.status_code == 422
    assert problem in answer.content.decode()
    assert not AlertTarget.objects.exists()


def test_what_was_sent_is_shown(people: People, signed_in: Browser) -> None:
    now = timezone.now()
    alert = BudgetAlert.objects.create(
        business="alpha",
        month=now.date().replace(day=1),
        percent=80,
        spent=Decimal(81),
        budget=Decimal(100),
        at=now,
    )
    for address, sent, error in (("a@x.example", now, ""), ("b@x.example", None, "no such host")):
        alert.deliveries.create(
            kind="mail", address=address, attempts=1, next_at=now, sent_at=sent, error=error
        )
    page = signed_in("colleague").get(ADDRESS).content.decode()
    assert "81.00 of 100.00" in page
    assert "no such host" in page
    assert "Add an address" not in page
    assert "81.00" not in signed_in("outsider").get(ADDRESS).content.decode()
