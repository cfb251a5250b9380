"""Versions of the policy in Postgres: saving, activating, and what is refused."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import psycopg
import pytest
from django.db import connection

from console.models import User
from metering.models import AuditEntry, ChangeVersion
from scheduler.core.policy import NamedPool, Policy, PolicyError, to_document
from scheduler.models import PolicyVersion, Pool
from scheduler.policy_file import parse
from scheduler.selectors.policy import (
    closed_pools,
    load_policy,
    load_version,
    missing_pools,
    pools_in_use,
)
from scheduler.services.policy import activate, active_policy, import_policy, save_version

pytestmark = pytest.mark.django_db

POOLED = parse("scheduler: {queues: {P0: {dedicated_pool: cards}, P2: {shared_pool: cards}}}")


def topic_version() -> int:
    row = ChangeVersion.objects.filter(topic=ChangeVersion.Topic.POLICY).first()
    return 0 if row is None else row.version


def saved(policy: Policy, reason: str = "") -> PolicyVersion:
    return save_version(policy, author=None, reason=reason, source="test")


def test_nothing_active_means_the_defaults() -> None:
    assert load_policy() == active_policy() == (0, Policy())
    assert pools_in_use() == []


def test_a_saved_version_is_a_draft() -> None:
    author = User.objects.create(username="olga", role=User.Role.OPERATOR)
    policy = replace(Policy(), mode="weighted")
    row = save_version(policy, author=author, reason="try weights")
    assert (row.version, row.active, row.author, row.reason) == (1, False, author, "try weights")
    assert row.document == to_document(policy)
    assert load_version(1) == policy
    assert load_policy() == (0, Policy())
    assert topic_version() == 0
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.target) == ("policy.save", author, "policy 1")
    assert entry.data == {"reason": "try weights"}


def test_activation_swaps_announces_and_audits() -> None:
    first, second = saved(Policy()), saved(replace(Policy(), mode="fifo"))
    activate(first, actor=None, reason="go", source="test")
    before = topic_version()
    row = activate(second, actor=None, reason="compare", source="test")
    assert row.active
    assert row.activated_at is not None
    assert load_policy() == (2, replace(Policy(), mode="fifo"))
    assert list(PolicyVersion.objects.filter(active=True)) == [second]
    assert topic_version() == before + 1
    entry = AuditEntry.objects.filter(action="policy.activate").first()
    assert entry is not None
    assert (entry.source, entry.target) == ("test", "policy 2")
    assert entry.data == {"reason": "compare", "before": 1}


def test_an_older_version_can_come_back() -> None:
    first, second = saved(Policy()), saved(replace(Policy(), mode="fifo"))
    for row in (first, second, first):
        activate(row, actor=None, reason="", source="test")
    assert load_policy() == (1, Policy())


def test_activating_the_active_one_changes_nothing() -> None:
    row = activate(saved(Policy()), actor=None, reason="go", source="test")
    state = (topic_version(), AuditEntry.objects.count(), row.activated_at)
    again = activate(row, actor=None, reason="go", source="test")
    assert (topic_version(), AuditEntry.objects.count(), again.activated_at) == state


def test_a_pool_that_is_not_in_the_fleet_is_refused_at_activation() -> None:
    running = activate(saved(replace(Policy(), mode="fifo")), actor=None, reason="", source="test")
    Pool.objects.create(name="other", lanes=["P0", "P1", "P2"])
    draft = saved(POOLED)
    state = (topic_version(), AuditEntry.objects.count())
    with pytest.raises(PolicyError) as caught:
        activate(draft, actor=None, reason="", source="test")
    assert [str(problem) for problem in caught.value.problems] == [
        "scheduler.queues.P0.dedicated_pool: no pool cards in the fleet; there are other",
        "scheduler.queues.P2.shared_pool: no pool cards in the fleet; there are other",
    ]
    assert load_policy() == (running.version, replace(Policy(), mode="fifo"))
    assert (topic_version(), AuditEntry.objects.count()) == state

    Pool.objects.create(name="cards", lanes=["P0"])
    activate(draft, actor=None, reason="", source="test")
    assert load_policy() == (2, POOLED)
    assert pools_in_use() == [
        NamedPool("scheduler.queues.P0.dedicated_pool", "cards", 0),
        NamedPool("scheduler.queues.P2.shared_pool", "cards", 2),
    ]


def test_what_is_worth_a_warning_about_pools() -> None:
    assert [problem.path for problem in missing_pools(POOLED)] == [
        "scheduler.queues.P0.dedicated_pool",
        "scheduler.queues.P2.shared_pool",
    ]
    assert closed_pools(POOLED) == []
    Pool.objects.create(name="cards", lanes=["P0"])
    assert missing_pools(POOLED) == []
    assert [str(problem) for problem in closed_pools(POOLED)] == [
        "scheduler.queues.P2.shared_pool: pool cards does not take lane P2"
    ]


def test_a_policy_that_breaks_its_rules_is_not_saved() -> None:
    with pytest.raises(PolicyError) as caught:
        save_version(replace(Policy(), tick_ms=0), author=None, reason="x" * 501)
    assert [problem.path for problem in caught.value.problems] == ["scheduler.tick_ms", "reason"]
    assert not PolicyVersion.objects.exists()
    assert not AuditEntry.objects.exists()


def test_an_import_that_can_not_be_activated_leaves_no_version() -> None:
    with pytest.raises(PolicyError):
        import_policy(POOLED, active=True, author=None, reason="", source="test")
    assert not PolicyVersion.objects.exists()
    assert not AuditEntry.objects.exists()
    assert import_policy(POOLED, active=False, author=None, reason="").version == 1


def test_a_document_of_another_release_is_refused_with_its_path() -> None:
    row = PolicyVersion.objects.create(version=1, document={"scheduler": {"moods": 1}})
    with pytest.raises(PolicyError) as caught:
        activate(row, actor=None, reason="", source="test")
    assert caught.value.path == "scheduler.moods"


def test_a_version_with_fields_that_have_been_removed_since_can_be_used_and_come_back() -> None:
    document = to_document(replace(Policy(), mode="fifo"))
    stored = document["scheduler"]
    assert isinstance(stored, dict)
    stored["feedback"] |= {"load_high": "85%", "load_clear": "70%"}
    row = PolicyVersion.objects.create(version=1, document=document, active=True)
    assert load_policy() == (1, replace(Policy(), mode="fifo"))
    activate(saved(Policy()), actor=None, reason="", source="test")
    activate(row, actor=None, reason="back", source="test")
    assert load_policy() == (1, load_version(1)) == (1, replace(Policy(), mode="fifo"))


@pytest.mark.django_db(transaction=True)
def test_versions_saved_at_once_have_no_gaps_and_one_is_active() -> None:
    writers, rounds = 4, 5
    barrier = Barrier(writers, timeout=30)

    def write(writer: int) -> None:
        try:
            barrier.wait()
            for _ in range(rounds):
                policy = replace(Policy(), tick_ms=writer + 1)
                import_policy(policy, active=True, author=None, reason="", source="test")
        finally:
            connection.close()

    with ThreadPoolExecutor(writers) as threads:
        for done in [threads.submit(write, writer) for writer in range(writers)]:
            done.result(timeout=60)
    numbers = sorted(PolicyVersion.objects.values_list("version", flat=True))
    assert numbers == list(range(1, writers * rounds + 1))
    assert load_policy()[0] == writers * rounds
    assert topic_version() == writers * rounds


@pytest.mark.django_db(transaction=True)
def test_listeners_hear_of_an_activation_and_of_nothing_that_was_refused() -> None:
    params = connection.get_connection_params()
    where = {name: params[name] for name in ("dbname", "user", "host", "port") if params.get(name)}
    with psycopg.connect(**where, autocommit=True) as listener:
        listener.execute("LISTEN fairlane")
        draft = saved(POOLED)
        with pytest.raises(PolicyError):
            activate(draft, actor=None, reason="", source="test")
        activate(saved(Policy()), actor=None, reason="", source="test")
        heard = [notice.payload for notice in listener.notifies(timeout=30, stop_after=1)]
        heard += [notice.payload for notice in listener.notifies(timeout=0)]
    assert heard == ["policy"]
