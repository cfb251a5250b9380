"""From who asks for what to a level 0-9 and a lane. Pure.

level = R + W + T + O - S, cut to 0-9: realtime high, medium, low = 0, 2, 5; model weight
light, medium, heavy = 0, 0, 1; grade vip, premium, basic = 0, 1, 2; offline work 1;
a billing SLA -1. Rows of the policy's mapping table come first. What a caller says about
itself is a *claim*: it may lower its urgency freely and never raises it above its ceiling.
"""

from dataclasses import dataclass

from metering.core.facts import BusinessFacts

from .fleet import ModelFacts
from .policy import MappingRow, Policy

REALTIME = {"high": 0, "medium": 2, "low": 5}
WEIGHT = {"light": 0, "medium": 0, "heavy": 1}
GRADE = {"vip": 0, "premium": 1, "basic": 2}


@dataclass(frozen=True, slots=True)
class Claim:
    """What the caller says: a lane index, a level, or nothing; ``text`` as it was said."""

    lane: int | None = None
    level: int | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Features:
    """What the level was computed from."""

    realtime: str
    model_weight: str
    grade: str
    offline: bool
    billing_sla: bool


@dataclass(frozen=True, slots=True)
class Classification:
    """``base_level`` is computed, ``level`` what claim and ceiling made of it;
    ``escalation`` says that the claim was above the ceiling."""

    features: Features
    base_level: int
    level: int
    lane: int
    escalation: bool
    reason: str


def parse_claim(text: str) -> Claim:
    """Read ``P0``-``P2`` or ``0``-``9``; an RFC 9218 value or anything else claims nothing."""
    word = text.strip().upper()
    if len(word) == 2 and word[0] == "P" and word[1] in "012":
        return Claim(lane=int(word[1]), text=word)
    if len(word) == 1 and word in "0123456789":
        return Claim(level=int(word), text=word)
    return Claim()


TIERS = {"priority": Claim(lane=0, text="priority"), "flex": Claim(lane=2, text="flex")}


def tier_claim(service_tier: str) -> Claim:
    """The claim in a body's ``service_tier``: ``auto`` and ``default`` claim nothing."""
    return TIERS.get(service_tier, Claim())


def features_of(
    business: BusinessFacts, model: ModelFacts, policy: Policy, realtime: str | None
) -> Features:
    """Each feature from the business, else the model, else the policy's defaults.

    ``realtime`` is the caller's word: it counts only where it asks for less.
    """
    defaults = policy.classification.defaults
    offline = business.offline or model.offline or defaults.offline
    given = business.realtime or model.realtime
    found = given or ("low" if offline else defaults.realtime)
    if offline and business.realtime is None:
        found = "low"
    if realtime in REALTIME and REALTIME[realtime] > REALTIME[found]:
        found = realtime
    return Features(
        found, model.weight or defaults.model_weight, business.grade, offline, business.billing_sla
    )


def base_level(features: Features, mapping: tuple[MappingRow, ...]) -> tuple[int, str]:
    """The level and where it comes from: the first mapping row that fits, or the formula."""
    for index, row in enumerate(mapping):
        if (
            row.realtime in (None, features.realtime)
            and row.model_weight in (None, features.model_weight)
            and row.grade in (None, features.grade)
            and row.offline in (None, features.offline)
        ):
            return row.level, f"mapping row {index + 1}"
    level = (
        REALTIME[features.realtime]
        + WEIGHT[features.model_weight]
        + GRADE[features.grade]
        + (1 if features.offline else 0)
        - (1 if features.billing_sla else 0)
    )
    return min(max(level, 0), 9), "formula"


def classify(
    business: BusinessFacts,
    model: ModelFacts,
    policy: Policy,
    *,
    ceiling: int,
    claim: Claim = Claim(),
    realtime: str | None = None,
) -> Classification:
    """Level and lane of a request. ``ceiling`` is the most urgent lane its credentials allow."""
    features = features_of(business, model, policy, realtime)
    base, reason = base_level(features, policy.classification.mapping)
    lanes = (policy.lanes.P0, policy.lanes.P1, policy.lanes.P2)
    most_urgent = lanes[ceiling][0]
    level, escalation = base, False
    if claim.level is not None:
        level = claim.level
    elif claim.lane is not None:
        level = lanes[0][0] if claim.lane == 0 else max(base, lanes[claim.lane][0])
    if claim.text:
        escalation = level < most_urgent
        reason = f"claim {claim.text}"
    if level < most_urgent:
        level = most_urgent
        reason += f", held at {('P0', 'P1', 'P2')[ceiling]}"
    return Classification(features, base, level, policy.lane_of(level), escalation, reason)
