"""Section ``chat``: conversations of several turns on cards that hold each of them once, but not
twice. Behind Fairlane and behind smg, which sends a prompt where its beginning is cached."""

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from scheduler.simulation.scenario_file import load

from .conversations import Held, Talk, conversations, converse
from .installation import furnished
from .machine import Cores
from .report import Json, Part, paired, percentile, rounded, table
from .site import Loads, cards_of, fleet
from .smg import routing
from .ways import Effort, Way, interleaved, one_round, warn_of_late

OURS, THEIRS = "fairlane", "smg"
MODEL, URGENT, USUAL = "chat", "desk", "office"
TALK = Talk(
    conversations=120,
    turns=6,
    urgent=1 / 3,
    system=1000,
    question=300,
    answer=100,
    pause_s=8.0,
    begin_s=75.0,
)
# Its cards hold 168,000 tokens. About 80 conversations are under way at most, each of 1,300 tokens
# in the mean beside the system prompt: once over they fit, twice they don't.
SITE = Path(__file__).with_name("multi-turn-chat.json")
LEAST_CACHED, MOST_FIRST = 1.0, 1.0
FIGURES = ("p0_p50", "p0_p95", "p1_p50", "p1_p95")


@dataclass(frozen=True, slots=True)
class Round:
    """One gateway in one round. ``first_ms``: time to the first token by lane and percentile;
    ``cached`` prompt tokens by the answers' word, of so many ``cacheable`` and of ``prompts``."""

    first_ms: dict[str, float]
    cached: int
    cacheable: int
    prompts: int
    answered: int
    failed: dict[str, int]
    loads: Loads
    effort: Effort


Results = dict[str, list[Round]]


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    scenario = load(str(SITE))
    businesses = (URGENT, USUAL)
    results: Results = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        cards = stack.enter_context(cards_of(scenario, folder, cores))
        installation = stack.enter_context(
            furnished(fleet(scenario, cards.urls), businesses, cores)
        )
        urls = list(cards.urls.values())
        ways = [
            Way(OURS, partial(installation.serving, "gateway"), installation.keys),
            Way(THEIRS, partial(routing, urls, folder, cores.gateway), {}),
        ]

        def each(way: Way, number: int) -> None:
            planned = conversations(TALK, businesses, number)
            held, loads, effort = one_round(
                way,
                cards,
                MODEL,
                businesses,
                lambda url, keys: converse(url, MODEL, TALK, planned, keys),
            )
            results.setdefault(way.name, []).append(round_of(held, TALK, loads, effort))

        interleaved(ways, rounds, each, section="chat")
    ours, theirs = results[OURS], results[THEIRS]
    ratios = {
        "chat_cached": paired(ours, theirs, lambda found: float(found.cached or 1)),
        "chat_p0_p50": paired(ours, theirs, lambda found: found.first_ms["p0_p50"]),
        "chat_p0_p95": paired(ours, theirs, lambda found: found.first_ms["p0_p95"]),
    }
    show(results, ratios, TALK)
    return {"chat": rounded(_document(results)), "ratios": rounded(ratios)}


def round_of(held: Sequence[Held], talk: Talk, loads: Loads, effort: Effort) -> Round:
    """What the conversations of a round come to."""
    made = [call for each in held for call in each.made]
    first = {}
    for lane in (0, 1):
        times = sorted(
            1e3 * each.heard.first_s
            for each in made
            if each.planned.lane == lane and each.heard.first_s is not None
        )
        first[f"p{lane}_p50"] = percentile(times, 0.50)
        first[f"p{lane}_p95"] = percentile(times, 0.95)
    return Round(
        first_ms=first,
        cached=sum(each.heard.cached for each in made),
        cacheable=sum(each.cacheable(talk) for each in held),
        prompts=sum(each.heard.usage.prompt_tokens for each in made),
        answered=sum(each.heard.whole for each in made),
        failed=dict(Counter(each.heard.reason for each in made if not each.heard.whole)),
        loads=loads,
        effort=effort,
    )


def _document(results: Results) -> dict[str, Json]:
    return {
        name: {
            **{figure: median(each.first_ms[figure] for each in found) for figure in FIGURES},
            "cached_tokens": median(each.cached for each in found),
            "rounds": [
                {
                    **each.first_ms,
                    "cached_tokens": each.cached,
                    "cached_tokens_by_cards": each.loads.cached,
                    "cacheable_tokens": each.cacheable,
                    "prompt_tokens": each.prompts,
                    "answered": each.answered,
                    "failed": each.failed,
                    "calls_by_card": each.loads.requests,
                    **each.effort.figures(),
                }
                for each in found
            ],
        }
        for name, found in results.items()
    }


def show(results: Results, ratios: dict[str, float], talk: Talk) -> None:
    """Print the table."""
    print(
        f"\nChat: {talk.conversations} conversations of {talk.turns} turns on three cards, first"
        f" token (ms), medians of {len(results[OURS])} interleaved rounds"
    )
    head = ["gateway", *(name.replace("_", " ").upper() for name in FIGURES)]
    head += ["cached", "by cards", "of cacheable", "answered", "failed", "calls/card"]
    head += list(Effort.HEAD)
    rows: list[list[Json]] = []
    for name, found in results.items():
        counts = [count for each in found for count in each.loads.requests.values()]
        rows.append(
            [
                name,
                *(median(each.first_ms[figure] for each in found) for figure in FIGURES),
                float(median(each.cached for each in found)),
                float(median(each.loads.cached for each in found)),
                f"{median(each.cached / max(1, each.cacheable) for each in found):.1%}",
                sum(each.answered for each in found),
                sum(sum(each.failed.values()) for each in found),
                f"{min(counts)}-{max(counts)}",
                *Effort.cells([each.effort for each in found]),
            ]
        )
    print(table(head, rows))
    warn_of_late([each.effort for found in results.values() for each in found])
    print(
        f"{OURS} / {THEIRS}: cached tokens {ratios['chat_cached']:.3f} (wanted: {LEAST_CACHED} or"
        f" more), first token of P0 P50 {ratios['chat_p0_p50']:.2f} and P95"
        f" {ratios['chat_p0_p95']:.2f} (wanted: {MOST_FIRST} or less)"
    )
