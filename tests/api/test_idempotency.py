"""A write that is sent again happens once."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from rest_framework.test import APIClient

from console.models import IdempotentWrite
from metering.models import ApiKey
from tests.console.conftest import People

Program = Callable[..., APIClient]
KEYS = "/api/v1/keys/"
NEW = {"business": "alpha", "name": "once"}


def send(client: APIClient, data: object = NEW, key: str = "k-1", path: str = KEYS) -> object:
    return client.post(path, data, format="json", headers={"idempotency-key": key})


def test_the_same_key_gets_the_same_answer_without_the_secret(
    people: People, program: Program
) -> None:
    client = program("owner")
    first = client.post(KEYS, NEW, format="json", headers={"idempotency-key": "k"})
    second = client.post(KEYS, NEW, format="json", headers={"idempotency-key": "k"})
    assert first.status_code == second.status_code == 201
    assert second.headers["Idempotent-Replay"] == "true"
    assert first.data["secret"]
    assert second.json() == {**first.json(), "secret": None}
    assert ApiKey.objects.count() == 1
    assert first.data["secret"] not in str(IdempotentWrite.objects.get().answer)


def test_the_key_stands_for_one_request_of_one_person(people: People, program: Program) -> None:
    client = program("owner")
    send(client)
    other = client.post(
        KEYS, {**NEW, "name": "another"}, format="json", headers={"idempotency-key": "k-1"}
    )
    assert other.status_code == 409
    assert ApiKey.objects.count() == 1
    theirs = program("outsider").post(
        KEYS, {**NEW, "business": "beta"}, format="json", headers={"idempotency-key": "k-1"}
    )
    assert theirs.status_code == 201


def test_a_refused_write_may_be_tried_again(people: People, program: Program) -> None:
    client = program("owner")
    wrong = client.post(
        KEYS, {**NEW, "name": ""}, format="json", headers={"idempotency-key": "k-1"}
    )
    assert wrong.status_code == 400
    assert wrong.json()["error"]["fields"]["name"]
    assert not IdempotentWrite.objects.exists()
    send(client)
    assert ApiKey.objects.count() == 1


def test_a_key_is_forgotten_after_a_day(people: People, program: Program) -> None:
    client = program("owner")
    send(client)
    row = IdempotentWrite.objects.get()
    row.at -= timedelta(days=1)
    row.save()
    send(client)
    assert ApiKey.objects.count() == 2


@pytest.mark.parametrize("key", ["x" * 256, "a\tb"])
def test_a_key_that_is_none_is_refused(people: People, program: Program, key: str) -> None:
    answer = program("owner").post(KEYS, NEW, format="json", headers={"idempotency-key": key})
    assert answer.status_code == 400
    assert not ApiKey.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_sent_many_times_at_once_it_happens_once(people: People, program: Program) -> None:
    clients = [program("owner") for _ in range(6)]

    def one(client: APIClient) -> int:
        try:
            answer = client.post(KEYS, NEW, format="json", headers={"idempotency-key": "k-1"})
            return int(answer.status_code)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(one, clients))
    assert statuses == [201] * 6
    assert ApiKey.objects.count() == 1
