"""Section ``incident``: an evaluation has every slot of three cards of eight, and more of it
waits. Urgent checks come all the while. Behind Fairlane and behind nginx's round robin, in turn."""

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

import msgspec

from scheduler.emulator.answers import expected_text
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import Workload

from .balancer import balancing
from .installation import furnished
from .machine import Cores
from .replay import Made, plan, replay
from .report import Json, Part, percentile, rounded, table
from .site import Loads, cards_of, fleet, senders
from .ways import Effort, Way, interleaved, one_round, warn_of_late

SITE = Path(__file__).with_name("full-cards.json")
OURS, THEIRS = "fairlane", "round robin"
EVALUATION = "offline-eval"
# The evaluation comes after one second, and has the cards some seconds later.
FULL_FROM_S = 5.0
MOST_FIRST_MS, LEAST_COMPLETED = 100.0, 0.99
SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(slots=True)
class Round:
    """One gateway in one round. ``first_ms``: time to the first token by lane and percentile, of
    calls that came while the cards were full; ``completed`` calls in all, ``in_time`` before the
    last call came, and ``evaluated`` ones of the evaluation by then; ``broken`` evaluation calls
    whose answer was not whole or not the one that their prompt has; ``preempted`` and
    ``recomputed`` tokens as the gateway recorded."""

    first_ms: dict[str, float]
    calls: int
    completed: int
    in_time: int
    evaluated: int
    broken: int
    failed: dict[str, int]
    loads: Loads
    effort: Effort
    preempted: int = field(default=0)
    recomputed: int = field(default=0)


Results = dict[str, list[Round]]


def measure(rounds: int, cores: Cores) -> Part:
    """Run the section, print its table and return its part of bench.json."""
    scenario = load(str(SITE))
    (model,) = scenario.models
    businesses = senders(scenario)
    results: Results = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        cards = stack.enter_context(cards_of(scenario, folder, cores))
        installation = stack.enter_context(
            furnished(fleet(scenario, cards.urls), businesses, cores)
        )
        installation.activate(scenario.policy)
        urls = list(cards.urls.values())
        ways = [
            Way(OURS, partial(installation.serving, "gateway"), installation.keys),
            Way(THEIRS, partial(balancing, THEIRS, urls, folder, cores.gateway), {}),
        ]

        def each(way: Way, number: int) -> None:
            planned = plan(Workload(scenario, scenario.seed + number))
            began = time.time()
            found = one_round(
                way, cards, model, businesses, lambda url, keys: replay(url, planned, keys)
            )
            done = round_of(*found, scenario.duration_s)
            if way.name == OURS:
                # The gateway has stopped, and has written everything down.
                done.preempted, done.recomputed = installation.preempted(EVALUATION, began)
            results.setdefault(way.name, []).append(done)

        interleaved(ways, rounds, each, section="incident")
    figures = figures_of(results)
    show(results, figures)
    return {"incident": rounded(_document(results)), "ratios": rounded(figures)}


def round_of(made: Sequence[Made], loads: Loads, effort: Effort, until: float) -> Round:
    """What the calls of a round come to; those that ended after ``until`` (s) are late."""
    first = {}
    for lane in (0, 1):
        times = sorted(
            1e3 * each.heard.first_s
            for each in made
            if each.planned.lane == lane
            and each.planned.at >= FULL_FROM_S
            and each.heard.first_s is not None
        )
        for label, share in SHARES.items():
            first[f"p{lane}_{label}"] = percentile(times, share)
    whole = [each for each in made if each.heard.whole]
    in_time = [
        each.planned.lane
        for each in whole
        if each.planned.at + each.late_s + each.heard.took_s <= until
    ]
    return Round(
        first_ms=first,
        calls=len(made),
        completed=len(whole),
        in_time=len(in_time),
        evaluated=in_time.count(2),
        broken=sum(not as_it_should(each) for each in made if each.planned.lane == 2),
        failed=dict(Counter(each.heard.reason for each in made if not each.heard.whole)),
        loads=loads,
        effort=effort,
    )


class _Body(msgspec.Struct):
    messages: list[dict[str, str]]
    vllm_xargs: dict[str, int]


def as_it_should(made: Made) -> bool:
    """Whether the call was answered whole, with the text that its prompt has when nobody
    interrupts it."""
    body = msgspec.json.decode(made.planned.body, type=_Body)
    prompt = chat_prompt_ids([(each["role"], each["content"]) for each in body.messages])
    # The end of the answer is one of its tokens.
    text = expected_text(prompt, body.vllm_xargs["answer_tokens"] - 1)
    return made.heard.whole and made.heard.text == text


def figures_of(results: Results) -> dict[str, float]:
    """The figures that are wanted."""
    ours, theirs = results[OURS], results[THEIRS]
    pairs = list(zip(ours, theirs, strict=True))
    return {
        "incident_p0_p99_ms": median(each.first_ms["p0_p99"] for each in ours),
        "incident_broken": float(sum(each.broken for each in ours)),
        "incident_completed": median(a.completed / max(1, b.completed) for a, b in pairs),
        "incident_in_time": median(a.in_time / max(1, b.in_time) for a, b in pairs),
        "incident_evaluated": median(a.evaluated / max(1, b.evaluated) for a, b in pairs),
    }


def _document(results: Results) -> dict[str, Json]:
    return {
        name: {
            "rounds": [
                {
                    **each.first_ms,
                    "calls": each.calls,
                    "completed": each.completed,
                    "completed_in_time": each.in_time,
                    "evaluated_in_time": each.evaluated,
                    "evaluations_broken": each.broken,
                    "failed": each.failed,
                    "preempted": each.preempted,
                    "tokens_recomputed": each.recomputed,
                    "tokens_generated": each.loads.generated,
                    **each.effort.figures(),
                }
                for each in found
            ]
        }
        for name, found in results.items()
    }


def show(results: Results, figures: dict[str, float]) -> None:
    """Print the table."""
    print(
        "\nFull cards: three of eight slots, first token (ms) while an evaluation has them all,"
        f" medians of {len(results[OURS])} interleaved rounds"
    )
    head = ["gateway", "P0 P50", "P0 P95", "P0 P99", "P1 P50", "P1 P95", "calls", "completed"]
    head += ["in time", "P2 of it", "P2 broken", "preempted", "recomputed", *Effort.HEAD]
    rows: list[list[Json]] = [
        [
            name,
            *(
                median(each.first_ms[figure] for each in found)
                for figure in ("p0_p50", "p0_p95", "p0_p99", "p1_p50", "p1_p95")
            ),
            sum(each.calls for each in found),
            sum(each.completed for each in found),
            sum(each.in_time for each in found),
            sum(each.evaluated for each in found),
            sum(each.broken for each in found),
            sum(each.preempted for each in found),
            sum(each.recomputed for each in found),
            *Effort.cells([each.effort for each in found]),
        ]
        for name, found in results.items()
    ]
    print(table(head, rows))
    warn_of_late([each.effort for found in results.values() for each in found])
    print(
        f"{OURS}: first token of P0 P99 {figures['incident_p0_p99_ms']:,.0f} ms (wanted: under"
        f" {MOST_FIRST_MS:.0f}), {figures['incident_broken']:.0f} evaluations broken (wanted: 0)"
    )
    print(
        f"{OURS} / {THEIRS}: completed {figures['incident_completed']:.3f} (wanted:"
        f" {LEAST_COMPLETED} or more), before the last call came"
        f" {figures['incident_in_time']:.3f}, of the evaluation {figures['incident_evaluated']:.3f}"
    )
