"""Feedback on the running gateway: what is moved is moved from the next call on, and told."""

from dataclasses import replace

from scheduler.core.decisions import Kind, Notice
from scheduler.core.policy import Policy
from scheduler.metrics import Metrics
from scheduler.stats import Stats

from .harness import URGENT_KEY, Gate, furnished, gate, replica
from .stub import Seen, Wire, chat_answer, stub

MOST = 10


async def boundless(seen: Seen, wire: Wire) -> None:
    """An engine that does not keep to ``max_tokens`` where the prompt asks it not to."""
    answer = chat_answer()
    tokens = 5 * MOST if seen.prompt == "long" else MOST
    answer["usage"] = {"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": 5 + tokens}
    await wire.json(answer)


def quick() -> Policy:
    """Judged after a few calls, and soon."""
    policy = Policy()
    feedback = replace(policy.feedback, hold_ticks=5, min_requests=5, window_s=2.0)
    return replace(policy, feedback=feedback)


async def call(running: Gate, prompt: str) -> str:
    """One call of the urgent business, which has level 0; its id."""
    messages = [{"role": "user", "content": prompt}]
    answer = await running.chat(key=URGENT_KEY, messages=messages, max_tokens=MOST)
    assert answer.status_code == 200
    return answer.headers["x-request-id"]


async def level_after(running: Gate, prompt: str, level: int) -> str:
    """Calls until one is decided at this level; its id."""
    for _ in range(2000):
        request = await call(running, prompt)
        row = next(each for each in running.decisions.rows if each.request == request)
        if row.level == level:
            return request
    raise AssertionError(f"no call came to level {level}")


async def test_who_costs_more_than_it_declares_sinks_and_comes_back() -> None:
    async with (
        stub(boundless) as engine,
        gate(furnished(replica(engine.url), policy=quick())) as running,
    ):
        await level_after(running, "long", 0)
        request = await level_after(running, "long", 2)
        row = next(each for each in running.decisions.rows if each.request == request)
        assert (row.lane, row.level, row.kind) == (0, 2, "dispatch")
        assert row.detail is not None
        assert row.detail["adjusted"] == 2
        # What it was classified to is what it pays for.
        usage = next(each for each in running.usage.rows if each.id == request)
        assert (usage.base_level, usage.level, usage.lane) == (0, 0, "P0")
        told = [each for each in running.decisions.rows if each.reason == Kind.ADJUSTED]
        assert [(each.business, each.model) for each in told] == [("urgent", "chat")] * 2
        details = [each.detail or {} for each in told]
        assert [detail["value"] for detail in details] == [1, 2]
        assert all("lowered: it costs" in str(detail["cause"]) for detail in details)
        request = await level_after(running, "short", 0)
        row = next(each for each in running.decisions.rows if each.request == request)
        assert "adjusted" not in (row.detail or {})


def test_the_feed_names_whom_it_is_about() -> None:
    stats = Stats(Metrics())
    stats.noticed(Notice(Kind.ADJUSTED, "urgent/org/chat", "raised: 9% are refused", -1), 10**9)
    (item,) = stats.feed
    assert (item.kind, item.business) == ("adjusted", "urgent")
    assert item.text == "urgent/org/chat adjusted: raised: 9% are refused"
