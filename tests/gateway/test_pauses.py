"""What callers see of a pause: comments, an end to it, and their place in the queue kept."""

import asyncio
from dataclasses import replace

from metering.core.usage import UsageRow
from scheduler.core.policy import Policy

from .answers import in_band_error
from .harness import LOW_KEY, URGENT_KEY, Gate, limits
from .test_resume import emulated, events, expected, one_answer, text_of

USAGE = {"include_usage": True}
# So long that its prefill can be cut: a second of the emulated card's time.
LONG_PROMPT = "word " * 7000


def pauses(*, queue_timeout_ms: int = 60_000) -> Policy:
    """Frequent comments; whoever may be paused is, whatever it costs."""
    policy = limits(keepalive_s=0.6)
    low = replace(policy.queues.P2, queue_timeout_ms=queue_timeout_ms)
    weights = replace(policy.preemption.weights, P0=10_000.0)
    return replace(
        policy,
        queues=replace(policy.queues, P2=low),
        preemption=replace(policy.preemption, margin_ms=0, weights=weights),
    )


async def under(gateway: Gate, policy: Policy) -> None:
    """Put the policy to use."""
    gateway.tell_policy(policy)
    await gateway.until(lambda: gateway.runtime.gateway.policy is policy)


async def row_of(gateway: Gate, business: str, count: int) -> UsageRow:
    """The business's only row, of so many."""
    (found,) = [row for row in await gateway.rows(count, 10) if row.business == business]
    return found


async def test_a_pause_is_bridged_by_comments() -> None:
    """A08's kind: they come while it waits, at most ``keepalive_s`` apart, and are no part of
    the answer."""
    async with emulated(1, 1, step_ms=10) as (gateway, _):
        await under(gateway, pauses())
        seen: list[bytes] = []
        urgent = None
        async with gateway.stream(
            "paused", key=LOW_KEY, max_tokens=40, ignore_eos=True, stream_options=USAGE
        ) as response:
            async for chunk in response.aiter_bytes():
                seen.append(chunk)
                if urgent is None and len(seen) > 4:
                    urgent = asyncio.create_task(
                        gateway.chat("long", key=URGENT_KEY, max_tokens=160, ignore_eos=True)
                    )
        assert urgent is not None
        assert (await urgent).status_code == 200
        comments = [chunk for chunk in seen if chunk.startswith(b": ")]
        assert len(comments) >= 2
        assert set(comments) == {b": waiting in P2\n\n"}
        body = b"".join(chunk for chunk in seen if not chunk.startswith(b": "))
        assert one_answer(body, "paused", 40)["completion_tokens"] == 40
        low = await row_of(gateway, "low", 2)
        assert (low.status, low.completion_tokens, low.preempted) == ("ok", 40, 1)


async def test_a_pause_beyond_the_lanes_limit_ends_the_stream() -> None:
    """One error frame, no [DONE]; what was delivered is kept and billed, and no more."""
    async with emulated(1, 1, step_ms=10) as (gateway, _):
        await under(gateway, pauses(queue_timeout_ms=700))
        body = b""
        urgent = None
        async with gateway.stream("cut", key=LOW_KEY, max_tokens=60, ignore_eos=True) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if urgent is None and body.count(b"data: ") > 4:
                    urgent = asyncio.create_task(
                        gateway.chat("long", key=URGENT_KEY, max_tokens=250, ignore_eos=True)
                    )
        assert urgent is not None
        frames = b"".join(part + b"\n\n" for part in body.split(b"\n\n") if part[:1] == b"d")
        assert in_band_error(frames)["code"] == "queue_timeout"
        text = text_of(events(frames)[:-1])
        assert text
        assert expected("cut", 60).startswith(text)
        assert (await urgent).status_code == 200
        low = await row_of(gateway, "low", 2)
        assert (low.status, low.reason, low.http_status) == ("queue_timeout", "queue_timeout", 200)
        delivered = len([1 for e in events(frames)[:-1] if e["choices"][0]["delta"].get("content")])
        assert delivered <= low.completion_tokens <= delivered + 2
        assert low.preempted == 1
        await gateway.rest()


async def test_paused_before_its_first_token_and_never_served_it_costs_nothing() -> None:
    async with emulated(1, 1, step_ms=10) as (gateway, (card,)):
        await under(gateway, pauses(queue_timeout_ms=700))
        low = asyncio.create_task(gateway.chat(LONG_PROMPT, key=LOW_KEY, max_tokens=5))
        await gateway.until(lambda: card.emulator.engine.running)
        urgent = asyncio.create_task(
            gateway.chat("long", key=URGENT_KEY, max_tokens=250, ignore_eos=True)
        )
        refused = await low
        assert refused.status_code == 429
        assert refused.json()["error"]["code"] == "queue_timeout"
        assert (await urgent).status_code == 200
        row = await row_of(gateway, "low", 2)
        assert (row.status, row.preempted, row.attempts) == ("queue_timeout", 1, 1)
        assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (0, 0, 0)


async def test_a_paused_request_goes_before_those_that_came_later() -> None:
    """C04: stopped in its prefill, it is first again when the urgent call is over."""
    async with emulated(1, 1, step_ms=10) as (gateway, (card,)):
        await under(gateway, pauses())
        first = asyncio.create_task(gateway.chat(LONG_PROMPT, key=LOW_KEY, max_tokens=5))
        await gateway.until(lambda: card.emulator.engine.running)
        urgent = asyncio.create_task(
            gateway.chat("now", key=URGENT_KEY, max_tokens=60, ignore_eos=True)
        )
        await gateway.until(lambda: gateway.queued == 1 and gateway.running == 1)
        second = asyncio.create_task(gateway.chat("later", key=LOW_KEY, max_tokens=5))
        answers = [await task for task in (urgent, first, second)]
        assert [answer.status_code for answer in answers] == [200] * 3
        ids = [answer.headers["x-request-id"] for answer in answers]
        runs = [row.request for row in gateway.decisions.rows if row.kind == "dispatch"]
        assert runs == [ids[1], ids[0], ids[1], ids[2]]


async def test_a_caller_that_leaves_during_the_pause_pays_for_what_it_got() -> None:
    async with emulated(1, 1, step_ms=10) as (gateway, _):
        await under(gateway, pauses())
        urgent = None
        pieces = 0
        async with gateway.stream("gone", key=LOW_KEY, max_tokens=60, ignore_eos=True) as response:
            async for chunk in response.aiter_bytes():
                if chunk.startswith(b": "):
                    break
                pieces += chunk.count(b'"content": "') + chunk.count(b'"content":"')
                if urgent is None and pieces > 4:
                    urgent = asyncio.create_task(
                        gateway.chat("long", key=URGENT_KEY, max_tokens=150, ignore_eos=True)
                    )
        assert urgent is not None
        assert (await urgent).status_code == 200
        low = await row_of(gateway, "low", 2)
        assert low.status == "client_disconnect"
        assert pieces - 1 <= low.completion_tokens <= pieces + 2
        await gateway.rest()
