"""Pools and replicas on pages: added, changed, drained, tested, removed."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from django.test import Client

from metering.models import AuditEntry, ChangeVersion
from scheduler.core.policy import Policy
from scheduler.models import ModelDeployment, Pool, Replica
from scheduler.services.policy import import_policy

from .conftest import People

Browser = Callable[[str], Client]
pytestmark = pytest.mark.django_db


class Model(BaseHTTPRequestHandler):
    """A model server that is well and writes one token."""

    posted: list[str] = []  # noqa: RUF012 - what all of its requests share

    def do_GET(self) -> None:
        self._say(b"{}")

    def do_POST(self) -> None:
        length = int(self.headers["content-length"])
        self.posted.append(self.rfile.read(length).decode())
        self._say(b'{"choices": []}')

    def _say(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to be heard of."""


@pytest.fixture
def model_server() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Model)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    Model.posted.clear()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def entry(url: str, **more: str) -> dict[str, str]:
    return {
        "name": "card-1",
        "url": url,
        "engine": "vllm",
        "pool": "gpu",
        "slots": "4",
        "gpus": "1",
        "kv_tokens": "",
        "models": "chat = org/Model-7B\nsmall",
        "service_class": "medium",
        "least_level": "0",
        "most_level": "9",
        "path": "hot",
        **more,
    }


@pytest.fixture
def browser(people: People, signed_in: Browser) -> Client:
    found = signed_in("operator")
    form = {"name": "gpu", "kind": "elastic", "lanes": ["P0", "P1", "P2"]}
    assert found.post("/ops/fleet/pools/new/", form).status_code == 302
    return found


def fleet_version() -> int:
    return ChangeVersion.objects.get(topic="fleet").version


def test_a_replica_from_its_form_to_its_removal(browser: Client, model_server: str) -> None:
    for name in ("chat", "small"):
        ModelDeployment.objects.create(name=name)
    before = fleet_version()
    assert browser.post("/ops/fleet/replicas/new/", entry(model_server)).status_code == 302
    row = Replica.objects.get()
    assert row.models == {"chat": "org/Model-7B", "small": "small"}
    assert fleet_version() > before
    page = browser.get("/ops/fleet/").content.decode()
    assert "card-1" in page
    answer = browser.post(f"/ops/fleet/replicas/{row.pk}/test/", follow=True)
    assert "card-1 answers: HTTP 200" in answer.content.decode()
    browser.post(f"/ops/fleet/replicas/{row.pk}/warm/")
    assert len(Model.posted) == 2
    assert '"org/Model-7B"' in Model.posted[0]
    changed = entry(model_server, slots="6")
    assert browser.post(f"/ops/fleet/replicas/{row.pk}/", changed).status_code == 302
    for step, draining in (("drain", True), ("undrain", False), ("drain", True)):
        browser.post(f"/ops/fleet/replicas/{row.pk}/{step}/")
        row.refresh_from_db()
        assert (row.draining, row.slots) == (draining, 6)
    browser.post(f"/ops/fleet/replicas/{row.pk}/remove/")
    assert not Replica.objects.exists()
    done = list(
        AuditEntry.objects.filter(action__startswith="replica.")
        .order_by("pk")
        .values_list("action", flat=True)
    )
    assert done == [
        "replica.add",
        "replica.warm",
        "replica.change",
        "replica.drain",
        "replica.undrain",
        "replica.drain",
        "replica.remove",
    ]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("url", "http://169.254.169.254/", "may"),
        ("url", "ftp://10.0.0.1/", "http"),
        ("slots", "0", "at least 1"),
        ("models", "unknown", "unknown"),
        ("most_level", "x", "Select a valid choice"),
    ],
)
def test_a_mistake_is_told_at_its_field(browser: Client, field: str, value: str, said: str) -> None:
    answer = browser.post("/ops/fleet/replicas/new/", {**entry("http://127.0.0.1:1"), field: value})
    assert answer.status_code == 422
    errors = answer.context["form"].errors
    assert set(errors) == {field}, errors
    assert said in str(errors[field])
    assert not Replica.objects.exists()


def test_a_name_that_is_taken_is_not_written_over(browser: Client) -> None:
    answer = browser.post(
        "/ops/fleet/pools/new/", {"name": "gpu", "kind": "dedicated", "lanes": "P0"}
    )
    assert answer.status_code == 422
    assert Pool.objects.get().kind == "elastic"


def test_a_replica_that_does_not_answer(browser: Client) -> None:
    row = Replica.objects.create(
        name="away", url="http://127.0.0.1:9", engine="vllm", pool=Pool.objects.get()
    )
    answer = browser.post(f"/ops/fleet/replicas/{row.pk}/test/", follow=True)
    assert "away does not answer well" in answer.content.decode()


def test_a_pool_that_something_needs_stays(browser: Client) -> None:
    pool = Pool.objects.get()
    row = Replica.objects.create(name="r", url="http://127.0.0.1:9", engine="vllm", pool=pool)
    answer = browser.post(f"/ops/fleet/pools/{pool.pk}/remove/", follow=True)
    assert "has replicas" in answer.content.decode()
    row.delete()
    queues = Policy().queues
    named = replace(Policy(), queues=replace(queues, P1=replace(queues.P1, shared_pool="gpu")))
    import_policy(named, active=True, author=None, reason="")
    answer = browser.post(f"/ops/fleet/pools/{pool.pk}/remove/", follow=True)
    assert "scheduler.queues.P1.shared_pool" in answer.content.decode()
    import_policy(Policy(), active=True, author=None, reason="")
    browser.post(f"/ops/fleet/pools/{pool.pk}/remove/")
    assert not Pool.objects.exists()
