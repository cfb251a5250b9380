"""``python -m bench.incident``: the evaluation that fills all cards, on the running system.

Replays a minute of the scenario in real time, against emulated cards behind the real
gateway: once by the default policy with the scenario's own changes, once in mode fifo.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from scheduler.core.policy import Policy
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import Workload

from .incident_traffic import Outcome, Traffic
from .installation import Installation, furnished
from .machine import BenchError, cores
from .report import Json, percentile, rounded, table
from .site import Cards, Loads, cards_of, fleet, senders

SCENARIO = "incident-eval-fills-cards"
CHECKS, CHAT, EVALUATION = "risk-audit", "live-service", "offline-eval"
LEAD_S = 5.0
FILL_S = 20.0
MEASURED_S = {"fairlane": 45.0, "fifo": 30.0}
SETTLE_S = 60.0
BURST = 600
MOST_WAIT_MS, LEAST_FIFO_MS = 500.0, 10_000.0


@dataclass(slots=True)
class Run:
    """One run: what came of the calls that arrived in ``seconds`` for which all cards were
    full, how many evaluation calls were answered by then, and what the cards counted.
    ``preempted`` is how often evaluation calls gave their slots up, ``recomputed`` the tokens
    that were computed again for it."""

    outcomes: list[Outcome]
    seconds: float
    evaluated: int
    loads: Loads
    preempted: int = 0
    recomputed: int = 0

    def waits(self, business: str) -> list[float]:
        """The waits (ms) of a business's calls, in order."""
        return sorted(o.wait_ms for o in self.outcomes if o.business == business)

    def refused(self, business: str) -> Counter[str]:
        """Calls that were not answered, by reason."""
        mine = [o for o in self.outcomes if o.business == business and not o.served]
        return Counter(o.reason for o in mine)


def main() -> int:
    """Both runs and their table; 1 with one line where that could not be had."""
    parser = argparse.ArgumentParser(prog="bench.incident", description=__doc__)
    parser.add_argument("--out", type=Path, help="folder to write incident.json to")
    options = parser.parse_args()
    try:
        runs = measure(load(SCENARIO))
    except BenchError as error:
        sys.stderr.write(f"\nbench: {error}\n")
        return 1
    show(runs)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        document = {name: rounded(figures(run)) for name, run in runs.items()}
        text = json.dumps(document, indent=1, sort_keys=True) + "\n"
        (options.out / "incident.json").write_text(text, encoding="utf-8")
    return 0


def measure(scenario: Scenario) -> dict[str, Run]:
    """The scenario's minute under each policy, on one installation."""
    places = cores()
    # Everything but the gateway runs on the other core.
    os.sched_setaffinity(0, {places.load})
    workload = Workload(scenario.cut(_burst_at(scenario) + FILL_S + max(MEASURED_S.values())))
    policies = {"fairlane": scenario.policy, "fifo": replace(scenario.policy, mode="fifo")}
    found = {}
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        cards_of(scenario, Path(name), places) as cards,
        furnished(fleet(scenario, cards.urls), senders(scenario), places) as installation,
    ):
        for mode, policy in policies.items():
            sys.stderr.write(f"\rbench: incident, {mode:<10}")
            found[mode] = _run(installation, cards, workload, policy, MEASURED_S[mode])
    sys.stderr.write("\r" + " " * 40 + "\r")
    return found


def _burst_at(scenario: Scenario) -> float:
    return min(burst.at_s for stream in scenario.arrivals for burst in stream.bursts)


def _run(
    installation: Installation, cards: Cards, workload: Workload, policy: Policy, seconds: float
) -> Run:
    installation.activate(policy)
    cards.forget()
    began = time.time()
    with installation.serving("gateway") as (_, port):
        traffic = Traffic(workload, f"http://127.0.0.1:{port}", installation.keys)
        run = asyncio.run(_replay(traffic, cards, workload.scenario, seconds))
    # A gateway that has stopped has written everything down.
    run.preempted, run.recomputed = installation.preempted(EVALUATION, began)
    return run


async def _replay(traffic: Traffic, cards: Cards, scenario: Scenario, seconds: float) -> Run:
    """From before the burst until every check that came while the cards were full has ended."""
    at = _burst_at(scenario)
    async with traffic.flowing(at - LEAD_S, at + FILL_S + seconds, BURST):
        await _filled(traffic, cards, scenario)
        begin = traffic.now
        await asyncio.sleep(seconds)
        end = traffic.now
        loads = await asyncio.to_thread(cards.loads)
        evaluated = sum(o.served for o in traffic.outcomes if o.business == EVALUATION)
        await traffic.settle(CHECKS, SETTLE_S)
        outcomes = [o for o in traffic.outcomes if begin <= o.at < end]
    return Run(outcomes, seconds, evaluated, loads)


async def _filled(traffic: Traffic, cards: Cards, scenario: Scenario) -> None:
    """Wait until the evaluation has every slot of the cards that take it."""
    deadline = _burst_at(scenario) + FILL_S
    taking = {replica.name for replica in scenario.replicas if 2 in replica.pool.lanes}
    while True:
        running = await asyncio.to_thread(cards.running)
        if all(running[name] >= cards.slots for name in taking):
            return
        if traffic.now > deadline:
            raise BenchError(f"the evaluation did not fill the cards: {running}")
        await asyncio.sleep(0.1)


def figures(run: Run) -> dict[str, Json]:
    """The run's figures as JSON."""
    found: dict[str, Json] = {"measured_s": run.seconds}
    for business in (CHECKS, CHAT):
        waits = run.waits(business)
        refused = run.refused(business)
        found[business] = {
            "calls": len(waits),
            "wait_p50_ms": percentile(waits, 0.5),
            "wait_p95_ms": percentile(waits, 0.95),
            "wait_p99_ms": percentile(waits, 0.99),
            "refused": dict(refused),
        }
    return {
        **found,
        "evaluated": run.evaluated,
        "preempted": run.preempted,
        "tokens_generated": run.loads.generated,
        "tokens_recomputed": run.recomputed,
        "most_at_once": run.loads.most_at_once,
    }


def show(runs: dict[str, Run]) -> None:
    """Print the table."""
    print("\nThe evaluation that fills all cards, in real time: waits while they are full (ms)")
    rows: list[list[Json]] = []
    for name, run in runs.items():
        for business in (CHECKS, CHAT):
            waits = run.waits(business)
            refused = sum(run.refused(business).values())
            rows.append(
                [
                    f"{name}: {business}",
                    len(waits),
                    *(round(percentile(waits, share)) for share in (0.5, 0.95, 0.99)),
                    refused,
                ]
            )
    print(table(["calls of", "sent", "P50", "P95", "P99", "refused"], rows))
    for name, run in runs.items():
        loads = run.loads
        print(
            f"{name}: {run.evaluated} evaluation calls answered, {loads.generated:,} tokens"
            f" generated, {run.preempted} preemptions, {run.recomputed:,} tokens computed again,"
            f" {loads.most_at_once} requests at most on a card"
        )
    checks = {name: percentile(run.waits(CHECKS), 0.99) for name, run in runs.items()}
    print(
        f"P99 wait of risk checks: {checks['fairlane']:,.0f} ms (wanted: under"
        f" {MOST_WAIT_MS:,.0f}), in mode fifo {checks['fifo']:,.0f} ms"
        f" (wanted: over {LEAST_FIFO_MS:,.0f})"
    )


if __name__ == "__main__":
    sys.exit(main())
