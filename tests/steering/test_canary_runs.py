"""A canary on a running gateway, with its real keeper: Postgres, NOTIFY, the decision log."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest
from asgiref.sync import sync_to_async
from django import db

from metering.changes import ChangeListener
from metering.core.facts import BusinessFacts
from metering.models import AuditEntry, Business
from scheduler.canary import Tally, Trial
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy
from scheduler.models import Canary, PolicyVersion
from scheduler.selectors.canary import load_trial
from scheduler.selectors.policy import load_policy
from scheduler.services.canary import end_canary, report_canary, start_canary
from scheduler.services.policy import activate, import_policy, save_version
from scheduler.testing import Memory
from tests.gateway.harness import Gate, gate, replica
from tests.gateway.stub import Seen, Wire, chat_answer, stub

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(120)]

T = TypeVar("T")
NAMES = ("tried", "one", "two", "three", "four")


def given_back(work: Callable[[], T]) -> T:
    """Database work on a thread of its own: its connection must not outlive it."""
    try:
        return work()
    finally:
        db.connections.close_all()


async def stored(work: Callable[[], T]) -> T:
    return await sync_to_async(given_back)(work)


def five_businesses() -> None:
    for name in NAMES:
        Business.objects.create(name=name)


@dataclass(slots=True)
class Stored(Memory):
    """Policy and canary as in production; everybody who may call is in memory."""

    async def run(self, on_change: Callable[[str], Awaitable[None]]) -> None:
        await ChangeListener().run(on_change)

    def policy(self) -> tuple[int, Policy]:
        return given_back(load_policy)

    def trial(self) -> Trial | None:
        return given_back(load_trial)

    def report(self, trial: int, tally: Tally) -> None:
        given_back(lambda: report_canary(trial, tally))


def key(name: str) -> str:
    return f"fl_live_{name * 8}"[:32]


def furnished(url: str) -> Stored:
    memory = Stored()
    for name in NAMES:
        memory.business(BusinessFacts(name, grade="premium", ceiling=1), key(name))
    memory.model(ModelFacts("chat"))
    memory.replica(replica(url, slots=4))
    return memory


async def slow(seen: Seen, wire: Wire) -> None:
    await asyncio.sleep(0.02)
    await wire.json(chat_answer(model="chat"))


def bad_draft() -> PolicyVersion:
    """Nobody of lane P1 may wait longer than 5 ms."""
    queues = Policy().queues
    impatient = replace(queues, P1=replace(queues.P1, queue_timeout_ms=5))
    return save_version(replace(Policy(), queues=impatient), author=None, reason="impatient")


def first_policy() -> PolicyVersion:
    return import_policy(Policy(), active=True, author=None, reason="first")


async def callers(gateway: Gate, stop: asyncio.Event, counts: Counter[tuple[str, int]]) -> None:
    """Four callers of each business, more than the slots can serve at once."""

    async def call(name: str) -> None:
        while not stop.is_set():
            response = await gateway.chat(key=key(name))
            counts[name, response.status_code] += 1

    await asyncio.gather(*(call(name) for name in NAMES for _ in range(4)))


async def test_a_bad_draft_rolls_itself_back() -> None:
    """By its 200th sample, or soon after; and nobody else was ever decided by it."""
    await stored(first_policy)
    await stored(five_businesses)
    draft = await stored(bad_draft)
    async with stub(slow) as server, gate(furnished(server.url)) as gateway:
        rules = gateway.runtime.gateway.rules
        await gateway.until(lambda: rules.version == 1)
        stop, counts = asyncio.Event(), Counter[tuple[str, int]]()
        traffic = asyncio.create_task(callers(gateway, stop, counts))
        await stored(lambda: start_canary(draft, ["tried"], actor=None, reason="try it"))
        await gateway.until(lambda: rules.trial is not None)
        await gateway.until(lambda: rules.trial is None, 60)
        stop.set()
        await traffic
        row = await stored(Canary.objects.get)
        assert row.state == Canary.State.ROLLED_BACK
        entry = await stored(lambda: AuditEntry.objects.get(action="canary.rollback"))
        assert entry.source == "canary"
        assert "control" in entry.data["reason"]
        assert entry.data["figures"]["canary"]["samples"] >= 200
        assert entry.data["figures"]["control"]["samples"] > 0
        assert (
            entry.data["figures"]["broken"]["canary"] > entry.data["figures"]["broken"]["control"]
        )
        # Some of its requests were decided by the draft, and none of anybody else's.
        rows = [each for each in gateway.decisions.rows if each.request]
        decided = Counter((each.business, each.policy) for each in rows)
        assert decided["tried", draft.version] >= 200
        assert {who for who, policy in decided if policy == draft.version} == {"tried"}
        # After the rollback the tried business is served as all others are.
        before = len(gateway.decisions.rows)
        assert (await gateway.chat(key=key("tried"))).status_code == 200
        assert {each.policy for each in gateway.decisions.rows[before:]} == {1}


async def test_a_good_draft_goes_on_until_somebody_ends_it() -> None:
    """Patience that is longer does no harm: nothing rolls back by itself."""
    await stored(first_policy)
    await stored(five_businesses)
    queues = Policy().queues
    patient = replace(queues, P1=replace(queues.P1, queue_timeout_ms=240_000))
    draft = await stored(
        lambda: save_version(replace(Policy(), queues=patient), author=None, reason="patient")
    )
    async with stub(slow) as server, gate(furnished(server.url)) as gateway:
        rules = gateway.runtime.gateway.rules
        canary = await stored(lambda: start_canary(draft, ["tried"], actor=None, reason="try it"))
        await gateway.until(lambda: rules.trial is not None)
        stop, counts = asyncio.Event(), Counter[tuple[str, int]]()
        traffic = asyncio.create_task(callers(gateway, stop, counts))
        for _ in range(600):
            await stored(canary.refresh_from_db)
            if canary.figures and canary.figures["canary"]["samples"] >= 200:
                break
            await asyncio.sleep(0.1)
        stop.set()
        await traffic
        assert canary.state == Canary.State.RUNNING, json.dumps(canary.figures)
        await stored(lambda: end_canary(canary, actor=None, reason="enough"))
        await gateway.until(lambda: rules.trial is None)


@pytest.mark.parametrize("names", [[], ["nobody"], list(NAMES)])
def test_a_canary_needs_a_control_group(names: list[str]) -> None:
    first_policy()
    five_businesses()
    with pytest.raises(ValueError, match="businesses"):
        start_canary(bad_draft(), names, actor=None, reason="")
    assert not Canary.objects.exists()


def test_what_is_about_a_pool_can_not_be_tried_on_some() -> None:
    first_policy()
    five_businesses()
    draft = save_version(replace(Policy(), mode="weighted"), author=None, reason="")
    with pytest.raises(ValueError, match=r"scheduler\.mode: can only change for all"):
        start_canary(draft, ["tried"], actor=None, reason="")


def test_a_new_active_policy_ends_what_was_tried_against_the_old() -> None:
    first_policy()
    five_businesses()
    draft = bad_draft()
    canary = start_canary(draft, ["tried"], actor=None, reason="")
    with pytest.raises(ValueError, match="another canary"):
        start_canary(draft, ["one"], actor=None, reason="")
    activate(draft, actor=None, reason="all of them")
    canary.refresh_from_db()
    assert canary.state == Canary.State.SUPERSEDED
    assert load_trial() is None
