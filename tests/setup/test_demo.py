"""The demo: loaded once, the same next time, made anew where it was lost."""

import json
import random
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from django.contrib.auth import authenticate

from console.demo.prepare import Plan, prepare
from console.demo.record import DemoRecord, Login, read_record, write_record
from console.demo.traffic import PROFILES, Caller
from console.models import DemoEntry, User
from console.up.banner import curl_line, demo_banner, plain_banner
from metering.models import ApiKey, AuditEntry, Business, Membership, PriceBook
from scheduler.fleet_document import FleetDocument, ModelSpec, PoolSpec, ReplicaSpec
from scheduler.models import Replica
from scheduler.services.fleet import apply_fleet, held_fleet

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "deploy" / "demo-fleet.yaml"
LLAMA = ROOT / "deploy" / "demo-llama.yaml"
PLACES = {f"card-{n}": f"http://127.0.0.1:{9100 + n}" for n in (1, 2, 3)}
ROLES = ["owner", "operator", "finance", "admin"]
BUSINESSES = ["risk-audit", "live-service", "doc-qa", "code-assist", "offline-eval"]


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return Plan(
        demo_file=tmp_path / "demo.json",
        demo_url="http://127.0.0.1:8000",
        running=[DEMO],
        idle=[LLAMA],
        places=PLACES,
    )


def load(plan: Plan) -> DemoRecord:
    prepare(plan)
    record = read_record(plan.demo_file)
    assert record is not None
    return record


@pytest.mark.django_db
def test_has_prices_from_the_beginning(plan: Plan) -> None:
    load(plan)
    load(plan)
    book = PriceBook.objects.get()
    assert {price.model for price in book.prices.all()} == {"chat", ""}


@pytest.mark.django_db
def test_has_what_programs_need(plan: Plan) -> None:
    prepare(plan)
    document = json.loads(plan.demo_file.read_text(encoding="utf-8"))
    assert list(document) == ["console_url", "gateway_url", "logins", "keys"]
    assert document["console_url"] == document["gateway_url"] == "http://127.0.0.1:8000"
    assert list(document["logins"]) == ROLES
    assert list(document["keys"]) == BUSINESSES
    assert all(key.startswith("fl_live_") for key in document["keys"].values())
    assert plan.demo_file.stat().st_mode & 0o777 == 0o600
    for role, login in document["logins"].items():
        assert set(login) == {"username", "password"}
        user = authenticate(username=login["username"], password=login["password"])
        assert isinstance(user, User)
        assert user.role == role
    assert Membership.objects.get().business.name == "risk-audit"
    lanes = dict(Business.objects.values_list("name", "ceiling"))
    assert [lanes[name] for name in BUSINESSES] == ["P0", "P0", "P1", "P1", "P2"]
    assert Replica.objects.count() == 3


@pytest.mark.django_db
def test_is_the_same_the_next_time(plan: Plan) -> None:
    first = load(plan)
    entries = AuditEntry.objects.count()
    assert load(plan) == first
    assert AuditEntry.objects.count() == entries


@pytest.mark.django_db
def test_a_lost_file_makes_new_secrets(plan: Plan) -> None:
    first = load(plan)
    plan.demo_file.unlink()
    second = load(plan)
    assert not set(first.keys.values()) & set(second.keys.values())
    assert ApiKey.objects.filter(revoked_at=None).count() == len(BUSINESSES)
    login = second.logins["owner"]
    assert authenticate(username=login.username, password=login.password)
    assert not authenticate(username="owner", password=first.logins["owner"].password)


@pytest.mark.django_db
def test_a_file_of_another_database_is_replaced(plan: Plan) -> None:
    strange = {role: Login(username=role, password="another") for role in ROLES}
    write_record(plan.demo_file, DemoRecord("", "", strange, dict.fromkeys(BUSINESSES, "x")))
    record = load(plan)
    assert record.logins["admin"].password != "another"
    assert record.keys["doc-qa"].startswith("fl_live_")


@pytest.mark.django_db
def test_a_withdrawn_key_is_replaced_and_a_removed_business_stays_away(plan: Plan) -> None:
    first = load(plan)
    ApiKey.objects.filter(business__name="doc-qa").update(revoked_at="2026-01-01T00:00:00Z")
    Business.objects.get(name="code-assist").delete()
    second = load(plan)
    assert list(second.keys) == [name for name in BUSINESSES if name != "code-assist"]
    assert second.keys["doc-qa"] != first.keys["doc-qa"]
    assert second.keys["risk-audit"] == first.keys["risk-audit"]


@pytest.mark.django_db
def test_a_replica_that_moved_is_found_and_keeps_what_people_changed(plan: Plan) -> None:
    load(plan)
    Replica.objects.filter(name="card-2").update(slots=3)
    moved = {**PLACES, "card-2": "http://127.0.0.1:40404"}
    prepare(Plan(plan.demo_file, plan.demo_url, plan.running, plan.idle, moved))
    card = Replica.objects.get(name="card-2")
    assert (card.slots, card.url) == (3, "http://127.0.0.1:40404")


@pytest.mark.django_db
def test_without_demo_only_what_runs_is_registered(plan: Plan) -> None:
    load(plan)
    apply_fleet(FleetDocument(businesses=()), prune=True, source="test")
    llama = {"llama-1": "http://127.0.0.1:9109"}
    prepare(Plan(plan.demo_file, None, running=[LLAMA], idle=[DEMO], places=llama))
    held = held_fleet()
    assert [replica.name for replica in held.replicas or ()] == ["llama-1"]
    assert not held.businesses
    prepare(Plan(plan.demo_file, None, idle=[DEMO, LLAMA]))
    assert not held_fleet().replicas


OWN = ReplicaSpec("card-1", "http://127.0.0.1:8001", "vllm", "mine", models={"llm": "org/Model"})


def own_fleet(model: str = "llm", replica: ReplicaSpec = OWN) -> None:
    """What somebody has who named a replica as README's example does."""
    apply_fleet(
        FleetDocument(
            pools=(PoolSpec("mine", "elastic", ("P0", "P1", "P2")),),
            models=(ModelSpec(model, "medium", "chat"),),
            replicas=(replica,),
        ),
        prune=False,
        source="test",
    )


def without(plan: Plan) -> Plan:
    """A start without the demo."""
    return Plan(plan.demo_file, None, idle=[DEMO, LLAMA])


@pytest.mark.django_db
def test_somebodys_own_replica_stays_whatever_it_is_called(plan: Plan) -> None:
    own_fleet()
    entries = AuditEntry.objects.count()
    for _ in range(2):
        assert prepare(without(plan)) == []
    assert Replica.objects.get().url == OWN.url
    assert AuditEntry.objects.count() == entries
    # Beside the demo as well, which has the rest of its own.
    assert prepare(plan) == ["card-1"]
    assert Replica.objects.get(name="card-1").url == OWN.url
    assert {replica.name for replica in held_fleet().replicas or ()} == set(PLACES)
    prepare(without(plan))
    assert [replica.name for replica in held_fleet().replicas or ()] == ["card-1"]


@pytest.mark.django_db
def test_who_gives_a_replica_of_the_demo_another_address_has_taken_it_over(plan: Plan) -> None:
    load(plan)
    held = {replica.name: replica for replica in held_fleet().replicas or ()}
    mine = replace(held["card-2"], url="http://127.0.0.1:8001")
    apply_fleet(FleetDocument(replicas=(mine,)), prune=False, source="test")
    assert prepare(plan) == ["card-2"]
    prepare(without(plan))
    assert [replica.url for replica in held_fleet().replicas or ()] == [mine.url]


@pytest.mark.django_db
def test_a_replica_made_anew_under_the_name_is_somebodys_own(plan: Plan) -> None:
    load(plan)
    place = Replica.objects.get(name="card-3").url
    Replica.objects.get(name="card-3").delete()
    own_fleet(replica=replace(OWN, name="card-3", url=place))
    prepare(without(plan))
    assert [replica.name for replica in held_fleet().replicas or ()] == ["card-3"]


@pytest.mark.django_db
def test_no_emulator_answers_for_somebodys_own_model(plan: Plan) -> None:
    own_fleet("chat", replace(OWN, name="real", models={"chat": "org/Model"}))
    assert prepare(plan) == list(PLACES)
    assert [replica.name for replica in held_fleet().replicas or ()] == ["real"]


@pytest.mark.django_db
def test_people_and_businesses_that_were_there_before_are_left_alone(plan: Plan) -> None:
    User.objects.create_user("admin", password="mine", role=User.Role.ADMIN)
    User.objects.create_user("owner", password="mine", role=User.Role.OWNER)
    for name in ("risk-audit", "doc-qa"):
        Business.objects.create(name=name, grade="basic", ceiling="P2")
    record = load(plan)
    for name in ("admin", "owner"):
        assert authenticate(username=name, password="mine")
        assert record.logins[name].username == f"demo-{name}"
    assert "doc-qa" not in record.keys
    assert not ApiKey.objects.filter(business__name__in=("risk-audit", "doc-qa")).exists()
    home = Membership.objects.get()
    assert (home.user.username, home.business.name) == ("demo-owner", "live-service")
    assert load(plan) == record


@pytest.mark.django_db
def test_what_was_made_before_there_were_marks_is_still_the_demos(plan: Plan) -> None:
    first = load(plan)
    DemoEntry.objects.all().delete()
    assert load(plan) == first
    DemoEntry.objects.all().delete()
    prepare(without(plan))
    assert not held_fleet().replicas


@pytest.mark.django_db
def test_a_file_of_another_database_makes_nobody_here_the_demos(plan: Plan) -> None:
    User.objects.create_user("admin", password="mine", role=User.Role.ADMIN)
    strange = {role: Login(username=role, password="another") for role in ROLES}
    write_record(plan.demo_file, DemoRecord("", "", strange, dict.fromkeys(BUSINESSES, "x")))
    load(plan)
    assert authenticate(username="admin", password="mine")


def test_banners_show_what_people_need() -> None:
    record = DemoRecord(
        "http://127.0.0.1:8000",
        "http://127.0.0.1:8000",
        {role: Login(username=role, password=f"{role}-password") for role in ROLES},
        {name: f"fl_live_{name}" for name in BUSINESSES},
    )
    text = demo_banner(record, model="chat")
    for part in (*record.keys.values(), *(f"{role}-password" for role in ROLES)):
        assert part in text
    assert curl_line("http://127.0.0.1:8000", "fl_live_risk-audit", "chat") in text
    assert "createsuperuser" in plain_banner("http://127.0.0.1:8000", ".venv/bin/python")


async def test_traffic_asks_for_the_models_that_run() -> None:
    seen: list[dict[str, object]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(json.loads(request.content))
        assert request.headers["authorization"] == "Bearer fl_live_x"
        return httpx.Response(429 if len(seen) % 2 else 200, text="data: [DONE]\n\n")

    transport = httpx.MockTransport(answer)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        for name in PROFILES:
            caller = Caller(client, name, "fl_live_x", ["chat", "smollm2"], random.getrandbits(32))
            for _ in range(80):
                await caller.call()
    assert {body["model"] for body in seen} == {"chat", "smollm2"}
    assert {body["stream"] for body in seen} == {True, False}
    assert all(isinstance(b["max_tokens"], int) and b["max_tokens"] > 0 for b in seen)
