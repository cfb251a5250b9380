"""Applying a fleet: nothing twice, nothing half, nothing that would break."""

import dataclasses

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from metering.models import ApiKey, AuditEntry, Business, ChangeVersion, Quota
from metering.selectors.access import load_access
from metering.services.keys import create_key
from scheduler.core.policy import Policy
from scheduler.fleet_diff import FleetDiff
from scheduler.fleet_document import BusinessSpec, FleetDocument, PoolSpec
from scheduler.fleet_file import FleetError, dump_fleet, parse_fleet
from scheduler.models import ModelDeployment, Pool, Replica
from scheduler.selectors.fleet import load_fleet
from scheduler.services.fleet import apply_fleet, export_fleet, held_fleet
from scheduler.services.policy import import_policy
from tests.fleet.test_fleet_file import EXAMPLE, FULL

pytestmark = pytest.mark.django_db


def apply(text: str | FleetDocument, *, prune: bool = False) -> FleetDiff:
    document = parse_fleet(text) if isinstance(text, str) else text
    return apply_fleet(document, prune=prune, source="test")


def refused(text: str, *, prune: bool = False) -> list[str]:
    """The problems; and nothing has changed."""
    before = (held_fleet(), versions(), AuditEntry.objects.count())
    with pytest.raises(FleetError) as error:
        apply(text, prune=prune)
    assert (held_fleet(), versions(), AuditEntry.objects.count()) == before
    return [f"{problem.path}: {problem.message}" for problem in error.value.problems]


def versions() -> dict[str, int]:
    return dict(ChangeVersion.objects.values_list("topic", "version"))


def test_the_example_becomes_a_fleet() -> None:
    diff = apply(EXAMPLE)
    assert [str(change) for change in diff.changes] == [
        "added pool gpu-p0",
        "added pool gpu-elastic",
        "added model chat",
        "added replica card-1",
        "added business risk-audit",
        "added business offline-eval",
    ]
    fleet = load_fleet()
    assert fleet.replicas["card-1"].models == {"chat": "org/Model-7B"}
    assert fleet.replicas["card-1"].levels == (0, 9)
    assert fleet.pools["gpu-p0"].dedicated
    assert fleet.pools["gpu-p0"].lanes == frozenset({0})
    assert fleet.pools["gpu-elastic"].lanes == frozenset({0, 1, 2})
    assert fleet.models["chat"].realtime == "medium"
    access = load_access()
    assert access.businesses["risk-audit"].running == 64
    assert access.businesses["risk-audit"].queued is None
    assert access.businesses["risk-audit"].ceiling == 0
    assert access.businesses["offline-eval"].offline
    assert (access.version, fleet.version) == (1, 1)


def test_paths_stand_ins_and_consent_reach_those_who_decide() -> None:
    apply(
        """
pools: [{name: gpu, kind: elastic, lanes: [P0, P1, P2]}]
models: [{name: chat}, {name: lite, lighter_of: chat}]
replicas:
  - {name: a, url: "http://10.0.0.1:8000", engine: vllm, pool: gpu, models: {chat: m}}
  - {name: b, url: "http://10.0.0.2:8000", engine: vllm, pool: gpu, models: {chat: m}, path: cold}
businesses: [{name: easy, degrade: true}, {name: strict}]
"""
    )
    fleet, access = load_fleet(), load_access()
    assert {name: facts.hot for name, facts in fleet.replicas.items()} == {"a": True, "b": False}
    assert (fleet.models["lite"].lighter_of, fleet.models["chat"].lighter_of) == ("chat", None)
    assert access.businesses["easy"].degrade
    assert not access.businesses["strict"].degrade


def test_a_second_time_changes_nothing() -> None:
    apply(FULL)
    seen = (versions(), AuditEntry.objects.count())
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert not apply(FULL, prune=True)
    assert (versions(), AuditEntry.objects.count()) == seen
    assert not [
        query for query in queries if query["sql"].startswith(("UPDATE", "INSERT", "DELETE"))
    ]


def test_what_is_exported_applies_to_no_effect() -> None:
    apply(FULL)
    exported = dump_fleet(held_fleet())
    assert not apply(exported, prune=True)
    assert set(export_fleet()) == {"pools", "models", "replicas", "businesses"}


def test_an_export_makes_the_same_fleet_elsewhere() -> None:
    apply(FULL)
    exported = dump_fleet(held_fleet())
    apply("{replicas: [], pools: [], models: [], businesses: []}", prune=True)
    assert not Pool.objects.exists()
    assert not Quota.objects.exists()
    apply(exported)
    assert dump_fleet(held_fleet()) == exported


def test_only_what_changed_is_told_and_announced() -> None:
    apply(EXAMPLE)
    diff = apply(EXAMPLE.replace("slots: 8", "slots: 9").replace("10.0.0.1:8000", "10.0.0.2:8000"))
    assert [str(change) for change in diff.changes] == ["changed replica card-1: url, slots"]
    assert versions() == {"access": 1, "fleet": 2}
    entry = AuditEntry.objects.first()
    assert entry is not None
    assert (entry.action, entry.target, entry.source) == ("replica.change", "card-1", "test")
    assert entry.data["before"] == {"url": "http://10.0.0.1:8000", "slots": 8}
    assert entry.data["after"] == {"url": "http://10.0.0.2:8000", "slots": 9}

    diff = apply(
        EXAMPLE.replace("slots: 8", "slots: 9").replace("10.0.0.1", "10.0.0.2").replace("64", "65")
    )
    assert [str(change) for change in diff.changes] == ["changed business risk-audit: quota"]
    assert versions() == {"access": 2, "fleet": 2}
    assert AuditEntry.objects.filter(business="risk-audit").count() == 2


def test_a_field_that_is_left_out_takes_its_default() -> None:
    apply(FULL)
    apply("businesses: [{name: risk-audit}]")
    assert held_fleet().businesses is not None
    [spec] = [spec for spec in held_fleet().businesses or () if spec.name == "risk-audit"]
    assert spec == BusinessSpec("risk-audit")
    assert not Quota.objects.filter(business__name="risk-audit", kind="envelope").exists()


def test_what_the_file_does_not_know_stays() -> None:
    apply(EXAMPLE)
    Business.objects.filter(name="risk-audit").update(suspended_at=timezone.now())
    Replica.objects.update(draining=True)
    business = Business.objects.get(name="risk-audit")
    create_key(business, "app", actor=None)
    apply(EXAMPLE.replace("grade: vip", "grade: premium").replace("slots: 8", "slots: 4"))
    business.refresh_from_db()
    assert business.grade == "premium"
    assert business.suspended_at is not None
    assert Replica.objects.get().draining
    assert ApiKey.objects.count() == 1


def test_without_prune_nothing_goes() -> None:
    apply(EXAMPLE)
    assert not apply("{pools: [], models: [], replicas: [], businesses: []}")
    assert Pool.objects.count() == 2


def test_prune_touches_only_the_parts_that_are_there() -> None:
    apply(EXAMPLE)
    diff = apply("businesses: [{name: risk-audit, grade: basic}]", prune=True)
    assert [str(change) for change in diff.changes] == [
        "changed business risk-audit: grade, ceiling, realtime, billing_sla, quota",
        "removed business offline-eval",
    ]
    assert Replica.objects.count() == 1
    assert Pool.objects.count() == 2


def test_prune_takes_a_business_with_its_keys() -> None:
    apply(EXAMPLE)
    create_key(Business.objects.get(name="offline-eval"), "app", actor=None)
    apply("businesses: [{name: risk-audit}]", prune=True)
    assert not ApiKey.objects.exists()
    assert load_access().keys == {}
    assert AuditEntry.objects.filter(action="business.remove", business="offline-eval").exists()


def test_a_whole_fleet_can_be_replaced_at_once() -> None:
    apply(EXAMPLE)
    replaced = EXAMPLE.replace("gpu-elastic", "gpu-new").replace("card-1", "card-9")
    diff = apply(replaced.replace("chat", "talk"), prune=True)
    assert {str(change) for change in diff.changes if change.what == "removed"} == {
        "removed pool gpu-elastic",
        "removed model chat",
        "removed replica card-1",
    }
    assert set(load_fleet().pools) == {"gpu-p0", "gpu-new"}
    assert load_fleet().replicas["card-9"].pool == "gpu-new"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            EXAMPLE.replace("pool: gpu-elastic", "pool: gpu-x"),
            "replicas[0].pool: no pool gpu-x in the fleet; there are gpu-elastic, gpu-p0",
        ),
        (
            EXAMPLE.replace("{chat: org", "{talk: org"),
            "replicas[0].models.talk: no model talk in the fleet; there are chat",
        ),
        (
            "businesses: [{name: a, models: [talk]}]",
            "businesses[0].models[0]: no model talk in the fleet; there are none",
        ),
        ("models: [{name: a, lighter_of: b}]", "models[0].lighter_of: no model b in the fleet"),
        ("models: [{name: a, lighter_of: a}]", "models[0].lighter_of: must name another model"),
        (
            EXAMPLE.replace("10.0.0.1:8000", "169.254.169.254"),
            "replicas[0].url: 169.254.169.254 is outside the networks",
        ),
        (EXAMPLE.replace("10.0.0.1:8000", "8.8.8.8"), "replicas[0].url: 8.8.8.8 is outside"),
        (EXAMPLE.replace("http://10", "gopher://10"), "replicas[0].url: must begin with http"),
        (
            EXAMPLE.replace("slots: 8", 'metrics_url: "http://[fe80::1]/metrics"'),
            "replicas[0].metrics_url: fe80::1 is outside",
        ),
        (
            EXAMPLE.replace("slots: 8", 'dcgm_url: "http://u:p@10.0.0.1"'),
            "replicas[0].dcgm_url: must not hold a user name",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "tcp://8.8.8.8:5557"'),
            "replicas[0].kv_events_url: 8.8.8.8 is outside",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "tcp://169.254.169.254:80"'),
            "replicas[0].kv_events_url: 169.254.169.254 is outside",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "http://10.0.0.1:5557"'),
            "replicas[0].kv_events_url: must begin with tcp://",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "tcp://10.0.0.1"'),
            "replicas[0].kv_events_url: must be tcp://, a host and a port",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "tcp://10.0.0.1:5557/a"'),
            "replicas[0].kv_events_url: must be tcp://, a host and a port",
        ),
        (
            EXAMPLE.replace("slots: 8", 'kv_events_url: "ipc:///tmp/events"'),
            "replicas[0].kv_events_url: must begin with tcp://",
        ),
    ],
)
def test_what_cannot_be_is_refused_as_a_whole(text: str, problem: str) -> None:
    [found] = refused(text)
    assert found.startswith(problem)
    assert not Pool.objects.exists()


def test_a_name_that_leads_to_a_link_local_address_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "scheduler.addresses.socket.getaddrinfo",
        lambda host, port, **_kinds: [(2, 1, 6, "", ("169.254.169.254", port))],
    )
    [found] = refused(EXAMPLE.replace("10.0.0.1", "card-1.internal"))
    assert found.startswith("replicas[0].url: card-1.internal is 169.254.169.254, which is outside")


def test_references_may_lead_to_what_the_fleet_has_already() -> None:
    apply(EXAMPLE)
    diff = apply(
        'replicas: [{name: card-2, url: "http://10.0.0.2:8000", engine: vllm, pool: gpu-p0,'
        " models: {chat: x}}]"
    )
    assert [str(change) for change in diff.changes] == ["added replica card-2"]


def test_what_others_need_cannot_go() -> None:
    apply(EXAMPLE)
    apply("businesses: [{name: doc-qa, models: [chat]}]")
    assert refused("{pools: [{name: gpu-p0}], models: []}", prune=True) == [
        "pools: pool gpu-elastic cannot go: replica card-1 is in it",
        "models: model chat cannot go: replica card-1 holds it",
        "models: model chat cannot go: business doc-qa names it",
    ]


def test_a_pool_that_the_active_policy_names_cannot_go() -> None:
    apply(EXAMPLE)
    defaults = Policy()
    named = dataclasses.replace(
        defaults,
        queues=dataclasses.replace(
            defaults.queues, P0=dataclasses.replace(defaults.queues.P0, dedicated_pool="gpu-p0")
        ),
    )
    import_policy(named, active=True, author=None, reason="test")
    without = EXAMPLE.replace("  - {name: gpu-p0, kind: dedicated, lanes: [P0]}\n", "")
    [found] = refused(without, prune=True)
    assert found.startswith("pools: pool gpu-p0 cannot go: the active policy names it in")
    assert found.endswith("scheduler.queues.P0.dedicated_pool")
    assert not apply(without)


def test_problems_carry_the_line_of_the_file() -> None:
    with pytest.raises(FleetError) as error:
        apply(EXAMPLE.replace("pool: gpu-elastic", "pool: gpu-x"))
    assert [problem.line for problem in error.value.problems] == [7]


def test_a_failure_half_way_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the last step fails")

    monkeypatch.setattr("scheduler.services.fleet.announce", broken)
    with pytest.raises(RuntimeError):
        apply(EXAMPLE)
    assert not Pool.objects.exists()
    assert not Business.objects.exists()
    assert not AuditEntry.objects.exists()


def test_large_fleets_take_few_queries_when_nothing_changes() -> None:
    pools = tuple(PoolSpec(f"pool-{number}") for number in range(60))
    apply(FleetDocument(pools=pools))
    with CaptureQueriesContext(connection) as queries:
        assert not apply(FleetDocument(pools=pools))
    assert len(queries) < 15
    assert ModelDeployment.objects.count() == 0
