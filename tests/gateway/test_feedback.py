"""Feedback on the running gateway: what is moved is moved from the next call on, and told."""

import asyncio
from dataclasses import replace

from scheduler.core.decisions import Kind, Notice
from scheduler.core.policy import Policy
from scheduler.metrics import Metrics
from scheduler.stats import Stats

from .harness import KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Seen, Wire, chat_answer, stub

MOST = 10
TOKEN_S = 0.001


async def boundless(seen: Seen, wire: Wire) -> None:
    """An engine that does not keep to ``max_tokens`` where the prompt asks it not to."""
    answer = chat_answer()
    tokens = 5 * MOST if seen.prompt == "long" else MOST
    answer["usage"] = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    # What work costs is the time that it takes.
    await asyncio.sleep(tokens * TOKEN_S)
    await wire.json(answer)


def quick() -> Policy:
    """Judged after a few calls, and soon."""
    policy = Policy()
    feedback = replace(policy.feedback, hold_ticks=5, min_requests=5, window_s=10.0)
    return replace(policy, feedback=feedback)


async def call(running: Gate, prompt: str, key: str = KEY, **headers: str) -> str:
    """One call of a business, by default of one that has level 3; its id."""
    messages = [{"role": "user", "content": prompt}]
    answer = await running.chat(key=key, headers=headers, messages=messages, max_tokens=MOST)
    assert answer.status_code == 200
    return answer.headers["x-request-id"]


async def level_after(running: Gate, prompt: str, level: int) -> str:
    """Calls until one is decided at this level, however many a machine makes until the hold time
    is over; its id."""
    while True:
        request = await call(running, prompt)
        row = next(each for each in running.decisions.rows if each.request == request)
        if row.level == level:
            return request


async def test_who_costs_more_than_it_declares_sinks_and_comes_back() -> None:
    async with (
        stub(boundless) as engine,
        gate(furnished(replica(engine.url), policy=quick())) as running,
    ):
        await level_after(running, "long", 3)
        request = await level_after(running, "long", 5)
        row = next(each for each in running.decisions.rows if each.request == request)
        assert (row.lane, row.level, row.kind) == (1, 5, "dispatch")
        assert row.detail is not None
        assert row.detail["adjusted"] == 2
        # What it was classified to is what it pays for.
        usage = next(each for each in running.usage.rows if each.id == request)
        assert (usage.base_level, usage.level, usage.lane) == (3, 3, "P1")
        told = [each for each in running.decisions.rows if each.reason == Kind.ADJUSTED]
        assert [(each.business, each.model) for each in told] == [("owner", "chat")] * 2
        details = [each.detail or {} for each in told]
        assert [detail["value"] for detail in details] == [1, 2]
        assert all("lowered: it costs" in str(detail["cause"]) for detail in details)
        request = await level_after(running, "short", 3)
        row = next(each for each in running.decisions.rows if each.request == request)
        assert "adjusted" not in (row.detail or {})


async def test_only_a_budget_that_the_caller_did_not_name_is_held_against_its_answers() -> None:
    async with (
        stub(boundless) as engine,
        gate(furnished(replica(engine.url), policy=quick())) as running,
    ):
        conducts = running.runtime.scheduler.state.tenants
        for named in (True, False):
            headers = {"X-Latency-Budget-Ms": "60000"} if named else {}
            await call(running, "short", URGENT_KEY, **headers)
            await running.rest()
            assert (conducts["urgent"].conducts["chat"].timed > 0) == (not named)


def test_the_feed_names_whom_it_is_about() -> None:
    stats = Stats(Metrics())
    stats.noticed(Notice(Kind.ADJUSTED, "urgent/org/chat", "raised: 9% are refused", -1), 10**9)
    (item,) = stats.feed
    assert (item.kind, item.business) == ("adjusted", "urgent")
    assert item.text == "urgent/org/chat adjusted: raised: 9% are refused"
