"""Claims above the ceiling: clamped or refused, counted, audited once a minute."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from metering.core.escalations import EscalationMinute
from scheduler.core.policy import Policy
from scheduler.escalations import MINUTE, MOST_HELD, Escalations
from scheduler.testing import Memory, MemoryAudit

from .harness import LOW_KEY, Gate, furnished, gate, replica
from .stub import Stub, stub


@pytest.fixture
async def engine() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


@pytest.fixture
def memory(engine: Stub) -> Memory:
    return furnished(replica(engine.url))


def note(held: Escalations, at: int, business: str = "low", claimed: str = "P0") -> None:
    held.note(business, claimed=claimed, ceiling="P2", outcome="clamp", request="r", wall=at)


async def counted(running: Gate) -> list[EscalationMinute]:
    await running.runtime._escalations.flush()
    return sorted(running.audit.seen.values(), key=lambda row: row.minute)


async def test_f04_headers_in_any_case_and_number_claim_no_more_than_is_allowed(
    memory: Memory, engine: Stub
) -> None:
    """F04: a P2 key asks for more in every way there is."""
    ways: list[tuple[list[tuple[str, str]], dict[str, object]]] = [
        ([("X-Priority", "0")], {}),
        ([("PRIORITY", "P0")], {}),
        ([("x-priority", "0"), ("Priority", "P0")], {}),
        ([], {"service_tier": "priority"}),
    ]
    trusted = [("X-Tenant", "urgent"), ("X-Tier", "vip"), ("X-Replica", "r1"), ("X-Lane", "P0")]
    async with gate(memory) as running:
        for headers, body in ways:
            answer = await running.client.post(
                "/v1/chat/completions",
                json={"model": "chat", "messages": [{}], "priority": -100, **body},
                headers=[("authorization", f"Bearer {LOW_KEY}"), *headers, *trusted],
            )
            assert (answer.status_code, answer.headers["x-lane"]) == (200, "P2")
        for seen in engine.seen:
            assert "priority" not in seen.json
            names = {name for name, _ in seen.headers}
            assert not names & {"x-priority", "priority", "x-tenant", "x-tier", "x-lane"}
        metrics = (await running.client.get("/metrics")).text
        assert 'fairlane_escalations_denied_total{business="low"} 4.0' in metrics
        rows = await counted(running)
    assert sum(row.count for row in rows) == 4
    assert {(row.business, row.ceiling, row.outcome) for row in rows} == {("low", "P2", "clamp")}
    assert rows[-1].claimed == "priority"


async def test_refused_where_the_policy_says_so(memory: Memory) -> None:
    policy = Policy()
    refusing = replace(policy.classification, on_escalation="refuse")
    memory.rules = replace(policy, classification=refusing)
    async with gate(memory) as running:
        answer = await running.chat(key=LOW_KEY, headers={"priority": "P0"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "priority_not_allowed")
        row = (await running.rows(1))[0]
        (seen,) = await counted(running)
    assert (seen.outcome, seen.claimed, seen.last_request) == ("refuse", "P0", row.id)


async def test_what_is_within_the_ceiling_is_no_escalation(memory: Memory) -> None:
    async with gate(memory) as running:
        for value in ("P2", "9", "u=3, i", "7"):
            assert (await running.chat(key=LOW_KEY, headers={"priority": value})).is_success
        assert not await counted(running)


async def test_a_storm_is_one_entry_for_a_business_and_minute() -> None:
    audit = MemoryAudit()
    held = Escalations(audit)
    for at in range(0, 2 * MINUTE, MINUTE // 1000):
        note(held, at)
        note(held, at, "other")
    await held.flush()
    assert {key: row.count for key, row in audit.seen.items()} == {
        ("low", 0): 1000,
        ("low", 1): 1000,
        ("other", 0): 1000,
        ("other", 1): 1000,
    }


async def test_what_cannot_be_written_is_kept_and_bounded() -> None:
    audit = MemoryAudit(away=True)
    held = Escalations(audit)
    note(held, 0)
    await held.flush()
    note(held, 1, claimed="1")
    await held.flush()
    for minute in range(MOST_HELD + 100):
        note(held, minute * MINUTE)
    audit.away = False
    await held.flush()
    assert len(audit.seen) == MOST_HELD
    assert (audit.seen["low", 0].count, audit.seen["low", 0].claimed) == (3, "P0")
    audit.seen.clear()
    await held.flush()
    assert not audit.seen


async def test_nothing_is_lost_when_the_gateway_stops(memory: Memory) -> None:
    async with gate(memory) as running:
        await running.chat(key=LOW_KEY, headers={"priority": "0"})
        await running.rows(1)
    assert sum(row.count for row in running.audit.seen.values()) == 1
