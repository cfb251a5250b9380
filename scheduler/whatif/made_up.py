"""Two policies on a scenario's traffic, through the simulator's own cards."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from scheduler.core.policy import Policy
from scheduler.simulation.fairlane import Fairlane
from scheduler.simulation.rates import planned
from scheduler.simulation.records import Records
from scheduler.simulation.scenario import SECOND, Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.scheduling import Outcome
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

from .compare import Comparison
from .figures import Side, replayed
from .recording import Asked, Recording
from .replay import Told
from .verdict import verdicts

# More would keep the page waiting for longer than a minute.
MOST_REQUESTS = 100_000
REFUSED = {
    Outcome.QUOTA: "rate_limit_requests",
    Outcome.TIMEOUT: "queue_timeout",
    Outcome.REFUSED: "queue_full",
    Outcome.FAILED: "upstream_error",
}


def compare_scenario(
    name: str, active: Policy, draft: Policy, watch: Callable[[float], None]
) -> Comparison:
    """Run the beginning of a built-in scenario under both policies."""
    scenario = shortened(load(name), MOST_REQUESTS)
    now = _side(scenario, active, active, lambda share: watch(share / 2))
    then = _side(scenario, draft, active, lambda share: watch(0.5 + share / 2))
    return {
        "requests": sum(lane["requests"] for lane in now["lanes"].values()),
        "seconds": scenario.duration_s,
        "active": now,
        "draft": then,
        "recorded": None,
        "agreement": None,
        "verdict": verdicts(now, then),
    }


def shortened(scenario: Scenario, most: int) -> Scenario:
    """The scenario's beginning, with about ``most`` requests."""
    seconds = scenario.duration_s
    while seconds > 1 and _requests(scenario, seconds) > most:
        seconds *= 0.9
    return scenario.cut(round(seconds, 1))


def _requests(scenario: Scenario, seconds: float) -> float:
    steady = sum(planned(stream, 0.0, seconds) for stream in scenario.arrivals)
    bursts = [burst for stream in scenario.arrivals for burst in stream.bursts]
    return steady + sum(burst.count for burst in bursts if burst.at_s <= seconds)


def _side(
    scenario: Scenario, policy: Policy, yardstick: Policy, watch: Callable[[float], None]
) -> Side:
    workload = Workload(replace(scenario, policy=_anywhere(policy)))
    records = World(workload, Fairlane).run(watch)
    told = [_told(workload, records, index) for index in range(len(workload))]
    asked = _asked(workload)
    recording = Recording(0, round(scenario.duration_s * SECOND) + 1, tuple(asked))
    return replayed(recording, told, yardstick)


def _anywhere(policy: Policy) -> Policy:
    """The policy without pools by name: a scenario has its own."""
    queues = policy.queues
    return replace(
        policy,
        queues=replace(
            queues,
            P0=replace(queues.P0, dedicated_pool=None),
            P1=replace(queues.P1, shared_pool=None),
            P2=replace(queues.P2, shared_pool=None),
        ),
    )


def _told(workload: Workload, records: Records, index: int) -> Told:
    outcome = Outcome(records.outcome[index])
    refused = REFUSED.get(outcome, "")
    got_a_slot = outcome in {Outcome.DONE, Outcome.TIMEOUT}
    return Told(
        lane=workload.lane[index],
        wait=records.waited[index] if got_a_slot else -1,
        refused=refused,
        ended=records.ended[index],
    )


def _asked(workload: Workload) -> Sequence[Asked]:
    names, models = workload.businesses, workload.models
    return [
        Asked(
            business=names[workload.business[index]],
            model=models[workload.model[index]],
            arrived=workload.arrived[index],
            lane=workload.lane[index],
            level=workload.level[index],
            base=workload.level[index],
            claim="",
            generative=True,
            continues=True,
            streamed=True,
            dispatched=0,
            finished=0,
            seen=0,
            service=0,
            replica="",
            prompt=workload.prompt[index],
            output=workload.output[index],
            left=False,
            timed_out=False,
            refused="",
        )
        for index in range(len(workload))
    ]
