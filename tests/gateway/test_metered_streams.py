"""What engines report in streams, in all the ways that they do it, and what is charged for it."""

from decimal import Decimal

import pytest

from metering.core.prices import ModelPrices, PriceList, Used, cost
from metering.core.usage import UsageRow

from .harness import furnished, gate, replica
from .stub import DONE, Json, Seen, Wire, delta, event, stub, usage, usage_event

HEAD: Json = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "chat"}
ASKED = {"include_usage": True}
PRICES = PriceList(
    models={"chat": ModelPrices(Decimal(2), Decimal("0.5"), Decimal(8))},
)


def chunk(text: str, told: Json | None, *, index: int = 0, finish: str | None = None) -> bytes:
    """A piece of an answer that carries a usage object, or null where one would be."""
    choice = {"index": index, "delta": {"content": text}, "finish_reason": finish}
    return event({**HEAD, "choices": [choice], "usage": told})


async def metered(*events: bytes) -> UsageRow:
    """The row of a call that is answered so."""

    async def answer(seen: Seen, wire: Wire) -> None:
        await wire.stream(*events)

    async with stub(answer) as server, gate(furnished(replica(server.url))) as gateway:
        assert await gateway.streamed(stream_options=ASKED) == b"".join(events)
        return await gateway.row()


@pytest.mark.parametrize("choices", [1, 3])
async def test_running_totals_are_not_added_up(choices: int) -> None:
    """E01: a total so far in each chunk, whichever of n choices it stands in."""
    pieces = [chunk("x", usage(50, n), index=n % choices) for n in range(1, 100)]
    row = await metered(*pieces, chunk("", usage(50, 99), finish="stop"), DONE)
    assert (row.prompt_tokens, row.completion_tokens, row.estimated) == (50, 99, False)


NOTHING = usage(0, 0)
FORMS = {
    "zeros, then real": [
        chunk("a", NOTHING),
        chunk("", NOTHING, finish="stop"),
        usage_event(50, 9),
    ],
    "on the finish chunk": [chunk("a", None), chunk("", usage(50, 9), finish="stop")],
    "alone after the finish": [delta("a"), delta(None, finish="stop"), usage_event(50, 9)],
    "null to the end": [
        chunk("a", None),
        chunk("b", None),
        chunk("", None, finish="stop"),
        usage_event(50, 9),
    ],
    "real, then zeros": [chunk("a", usage(50, 9)), chunk("", NOTHING, finish="stop")],
}


@pytest.mark.parametrize("form", FORMS)
async def test_the_last_figures_that_say_anything_count(form: str) -> None:
    """E02: and reading goes on after the finish reason."""
    row = await metered(*FORMS[form], DONE)
    assert (row.status, row.prompt_tokens, row.completion_tokens) == ("ok", 50, 9)
    assert not row.estimated


@pytest.mark.parametrize(("told", "kept"), [(16_298, 16_298), (30_000, 20_212)])
async def test_cached_tokens_are_part_of_the_prompt(told: int, kept: int) -> None:
    """E10: charged once, at their own price; more than the prompt has are none."""
    final = event({**HEAD, "choices": [], "usage": usage(20_212, 931, cached=told)})
    row = await metered(delta("a"), delta(None, finish="stop"), final, DONE)
    assert (row.prompt_tokens, row.cached_tokens) == (20_212, kept)
    used = Used(row.prompt_tokens, row.cached_tokens, row.completion_tokens)
    million = Decimal(1_000_000)
    full, cached = (20_212 - kept) * 2, kept * Decimal("0.5")
    assert cost(PRICES, "chat", "P1", used).amount * million == full + cached + 931 * 8
