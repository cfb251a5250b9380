"""Two policies on the same traffic: everything that the page shows, as JSON's own types."""

from collections.abc import Callable, Mapping
from typing import TypedDict

from metering.core.facts import BusinessFacts
from scheduler.core.fleet import FleetSnapshot
from scheduler.core.policy import Policy

from .figures import Side, recorded, replayed
from .levels import Levels
from .recording import Recording, fit
from .replay import Replay
from .verdict import Agreement, Verdict, agreement, verdicts

Watch = Callable[[float], None]


class Comparison(TypedDict):
    """``recorded`` and ``agreement`` None: the traffic is made up, nothing ever happened."""

    requests: int
    seconds: float
    active: Side
    draft: Side
    recorded: Side | None
    agreement: dict[str, Agreement] | None
    verdict: dict[str, Verdict]


def compare(
    recording: Recording,
    *,
    fleet: FleetSnapshot,
    businesses: Mapping[str, BusinessFacts],
    active: Policy,
    draft: Policy,
    watch: Watch = lambda _: None,
) -> Comparison:
    """Run the recording under both policies. ``watch`` is told the share (0-1) that is done."""
    fitted = fit(recording.requests)

    def side(policy: Policy, told: Watch) -> Side:
        levels = Levels(active, policy, businesses, fleet.models)
        run = Replay(
            recording,
            fitted,
            fleet=fleet,
            businesses=businesses,
            policy=policy,
            level=levels.of,
        )
        return replayed(recording, run.run(told), active)

    now = side(active, lambda share: watch(share / 2))
    then = side(draft, lambda share: watch(0.5 + share / 2))
    happened = recorded(recording, active)
    return {
        "requests": sum(lane["requests"] for lane in happened["lanes"].values()),
        "seconds": (recording.end - recording.begin) / 1e9,
        "active": now,
        "draft": then,
        "recorded": happened,
        "agreement": agreement(happened, now),
        "verdict": verdicts(now, then),
    }
