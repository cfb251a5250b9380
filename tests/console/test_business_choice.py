"""Switching between one's businesses."""

from collections.abc import Callable

import pytest
from django.test import Client

from metering.models import Membership

from .conftest import People

Browser = Callable[[str], Client]


@pytest.fixture
def browser(people: People, signed_in: Browser) -> Client:
    """The owner of alpha, who may also look at beta."""
    Membership.objects.create(user=people.owner, business=people.beta, role="member")
    return signed_in("owner")


def shown(browser: Client) -> str:
    return str(browser.get("/").context["reach"].business.name)


def test_the_choice_holds_for_every_page(browser: Client) -> None:
    assert shown(browser) == "alpha"
    response = browser.post("/accounts/business/", {"business": "beta", "next": "/keys/"})
    assert response.headers["Location"] == "/keys/"
    assert shown(browser) == "beta"
    keys = browser.get("/keys/").content.decode()
    assert "beta" in keys
    assert "Create key" not in keys


def test_one_cannot_choose_somebody_elses(signed_in: Browser, people: People) -> None:
    browser = signed_in("owner")
    assert browser.post("/accounts/business/", {"business": "beta"}).status_code == 404
    assert shown(browser) == "alpha"


def test_a_choice_that_was_taken_away_falls_back(browser: Client, people: People) -> None:
    browser.post("/accounts/business/", {"business": "beta"})
    Membership.objects.filter(user=people.owner, business=people.beta).delete()
    assert shown(browser) == "alpha"


def test_the_way_back_never_leads_to_another_site(browser: Client) -> None:
    form = {"business": "beta", "next": "https://elsewhere.example/"}
    assert browser.post("/accounts/business/", form).headers["Location"] == "/"


def test_a_form_from_an_old_window_changes_the_business_it_showed(
    browser: Client, people: People
) -> None:
    browser.post("/accounts/business/", {"business": "beta"})
    response = browser.post("/keys/", {"business": "alpha", "name": "app", "days": 0})
    assert response.status_code == 200
    assert people.alpha.keys.count() == 1
    assert people.beta.keys.count() == 0


def test_a_form_with_a_mistake_comes_back_for_the_same_business(browser: Client) -> None:
    browser.post("/accounts/business/", {"business": "beta"})
    response = browser.post("/keys/", {"business": "alpha", "name": "", "days": 0})
    assert response.status_code == 422
    assert response.context["reach"].business.name == "alpha"
    assert response.context["reach"].names == ["alpha", "beta"]
    assert b'name="business" value="alpha"' in response.content
