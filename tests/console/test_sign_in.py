"""Signing in and out, and those who guess."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.test import Client

from console.models import SignInAttempt
from console.services.sign_in import THROTTLE, WINDOW, Throttle, attempt_succeeded, begin_attempt
from metering.models import AuditEntry

from .conftest import PASSWORD, People

LOGIN = "/accounts/login/"


def attempt(client: Client, username: str, password: str, address: str = "10.0.0.1") -> int:
    form = {"username": username, "password": password}
    return client.post(LOGIN, form, REMOTE_ADDR=address).status_code


def test_the_right_password_opens_the_first_page(client: Client, people: People) -> None:
    response = client.post(LOGIN, {"username": "owner", "password": PASSWORD}, follow=True)
    assert response.redirect_chain == [("/", 302)]
    assert AuditEntry.objects.get().action == "user.sign_in"


def test_signing_out_needs_a_post_and_ends_the_session(client: Client, people: People) -> None:
    attempt(client, "owner", PASSWORD)
    assert client.get("/accounts/logout/").status_code == 405
    client.post("/accounts/logout/")
    assert client.get("/keys/").status_code == 302


def test_the_way_on_never_leads_to_another_site(client: Client, people: People) -> None:
    form = {"username": "owner", "password": PASSWORD, "next": "https://elsewhere.example/"}
    assert client.post(LOGIN, form).headers["Location"] == "/"


@pytest.mark.parametrize("username", ["owner", "OWNER ", "nobody-of-that-name"])
def test_guessing_is_held_off_whether_or_not_the_name_exists(
    client: Client, people: People, username: str
) -> None:
    for _ in range(THROTTLE.per_address):
        assert attempt(client, username, "wrong") == 200
    response = client.post(
        LOGIN, {"username": username, "password": PASSWORD}, REMOTE_ADDR="10.0.0.1"
    )
    assert response.status_code == 429
    assert 0 < int(response.headers["Retry-After"]) <= WINDOW.total_seconds()
    assert b"Too many attempts" in response.content
    assert "sessionid" not in client.cookies


def test_others_are_not_held_off(client: Client, people: People) -> None:
    for _ in range(THROTTLE.per_address + 1):
        attempt(client, "owner", "wrong")
    assert attempt(client, "owner", PASSWORD, address="10.0.0.2") == 302
    assert attempt(Client(), "outsider", PASSWORD) == 302


def test_the_wait_ends_and_being_refused_does_not_prolong_it(
    client: Client, people: People
) -> None:
    for _ in range(3 * THROTTLE.per_address):
        attempt(client, "owner", "wrong")
    assert SignInAttempt.objects.count() == THROTTLE.per_address
    for row in SignInAttempt.objects.all():
        row.at -= WINDOW
        row.save()
    assert attempt(client, "owner", PASSWORD) == 302


def test_a_success_clears_the_count(client: Client, people: People) -> None:
    for _ in range(THROTTLE.per_address - 1):
        attempt(client, "owner", "wrong")
    assert attempt(client, "owner", PASSWORD) == 302
    for _ in range(THROTTLE.per_address):
        assert attempt(Client(), "owner", "wrong") == 200


def test_a_name_is_also_counted_over_all_addresses(db: None) -> None:
    throttle = Throttle(per_address=5, per_username=8)
    waits = [begin_attempt("owner", f"10.0.1.{n}", throttle) for n in range(9)]
    assert waits[:8] == [0] * 8
    assert waits[8] > 0


def test_the_wait_is_until_the_oldest_attempt_leaves_the_window(db: None) -> None:
    throttle = Throttle(per_address=2)
    assert begin_attempt("owner", "10.0.0.1", throttle) == 0
    assert begin_attempt("owner", "10.0.0.1", throttle) == 0
    oldest = SignInAttempt.objects.earliest("at")
    oldest.at -= timedelta(minutes=10)
    oldest.save()
    wait = begin_attempt("owner", "10.0.0.1", throttle)
    assert 290 <= wait <= 300
    attempt_succeeded("owner", "10.0.0.1")
    assert begin_attempt("owner", "10.0.0.1", throttle) == 0


@pytest.mark.django_db(transaction=True)
def test_attempts_at_once_do_not_slip_through() -> None:
    def one(_: int) -> int:
        try:
            return begin_attempt("owner", "10.0.0.1")
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        waits = list(pool.map(one, range(40)))
    assert waits.count(0) <= THROTTLE.per_address
    assert begin_attempt("owner", "10.0.0.1") >= 0


def test_the_admin_has_no_door_of_its_own(client: Client, people: People) -> None:
    response = client.post("/admin/login/", {"username": "admin", "password": PASSWORD})
    assert response.status_code == 302
    assert response.headers["Location"].startswith(LOGIN)
    assert "sessionid" not in client.cookies
