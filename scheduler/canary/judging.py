"""Whether a canary may go on. Pure: counts and limits in, a judgement out."""

from dataclasses import asdict, dataclass

from metering.core.facts import LANES

from .tally import Group, Tally


@dataclass(frozen=True, slots=True)
class Limits:
    """How much worse than the control group the canary may do.

    Nothing is judged below ``least_samples`` requests under the draft. ``sla_points`` and
    ``refusal_points`` are ratios 0-1 by which its shares may exceed the control group's;
    its P95 wait may be ``p95_factor`` times the control group's, and ``p95_slack_ms`` more.
    """

    least_samples: int = 200
    sla_points: float = 0.05
    refusal_points: float = 0.05
    p95_factor: float = 1.5
    p95_slack_ms: float = 50.0


# A control group of a lane that is smaller says little about its P95.
LEAST_CONTROL = 20


@dataclass(frozen=True, slots=True)
class Judgement:
    """``broken`` names the limit that the canary breaks: ``sla``, ``refusals``, ``p95``, or
    nothing. ``lane`` is there for the last. Values are those of the limit that is broken."""

    broken: str = ""
    lane: str = ""
    canary: float = 0.0
    control: float = 0.0
    limit: float = 0.0


def judge(tally: Tally, limits: Limits) -> Judgement:
    """The first limit that is broken, if one is."""
    mine, others = _whole(tally.canary), _whole(tally.control)
    if mine.samples < limits.least_samples:
        return Judgement()
    for name, canary, control, points in (
        (
            "sla",
            _share(mine.missed, mine.due),
            _share(others.missed, others.due),
            limits.sla_points,
        ),
        (
            "refusals",
            _share(mine.refused, mine.samples),
            _share(others.refused, others.samples),
            limits.refusal_points,
        ),
    ):
        if canary > control + points:
            return Judgement(name, "", round(canary, 4), round(control, 4), control + points)
    for lane, (group, control_group) in enumerate(zip(tally.canary, tally.control, strict=True)):
        ours, theirs = group.p95_ms(), control_group.p95_ms()
        enough = sum(control_group.waits.values()) >= LEAST_CONTROL
        if ours is None or theirs is None or not enough:
            continue
        limit = theirs * limits.p95_factor + limits.p95_slack_ms
        if sum(group.waits.values()) >= LEAST_CONTROL and ours > limit:
            return Judgement("p95", LANES[lane], ours, theirs, round(limit, 1))
    return Judgement()


def summary(tally: Tally) -> dict[str, object]:
    """The figures of both groups as people read them; ratios 0-1, waits in ms."""
    return {
        name: {
            "samples": whole.samples,
            "sla_miss_ratio": round(_share(whole.missed, whole.due), 4),
            "refused_ratio": round(_share(whole.refused, whole.samples), 4),
            "p95_wait_ms": {
                lane: group.p95_ms() for lane, group in zip(LANES, groups, strict=True)
            },
        }
        for name, groups in (("canary", tally.canary), ("control", tally.control))
        for whole in (_whole(groups),)
    }


def limits_as_dict(limits: Limits) -> dict[str, object]:
    """JSON's own types; ``Limits(**held)`` reads it back."""
    return asdict(limits)


def _whole(groups: list[Group]) -> Group:
    found = Group()
    for group in groups:
        found.add(group)
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
