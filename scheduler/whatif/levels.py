"""Which level a recorded request has under another policy.

A row has the level it got and what was claimed, not every header. So the classifier is asked
for the headers' effect that explains the recorded level, and then again under the other
policy. What can't be explained keeps its level.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from metering.core.facts import BusinessFacts
from scheduler.core.classify import Claim, classify, parse_claim, tier_claim
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Policy

from .recording import Asked

REALTIMES = (None, "low", "medium", "high")
LOWEST = 2
Kind = tuple[str, str, str, int, int]


@dataclass(slots=True)
class Levels:
    """Levels of recorded requests under ``policy``; they were recorded under ``active``."""

    active: Policy
    policy: Policy
    businesses: Mapping[str, BusinessFacts]
    models: Mapping[str, ModelFacts]
    _known: dict[Kind, int] = field(default_factory=dict)

    def of(self, asked: Asked) -> int:
        """The level 0-9."""
        new, old = self.policy, self.active
        if (new.classification, new.lanes) == (old.classification, old.lanes):
            return asked.level
        kind = (asked.business, asked.model, asked.claim, asked.base, asked.level)
        level = self._known.get(kind)
        if level is None:
            level = self._known[kind] = self._again(asked)
        return level

    def _again(self, asked: Asked) -> int:
        business, model = self.businesses.get(asked.business), self.models.get(asked.model)
        if business is None or model is None:
            return asked.level
        claim = _claim(asked.claim)
        for ceiling in range(business.ceiling, LOWEST + 1):
            for realtime in REALTIMES:
                found = classify(
                    business, model, self.active, ceiling=ceiling, claim=claim, realtime=realtime
                )
                if (found.base_level, found.level) == (asked.base, asked.level):
                    again = classify(
                        business,
                        model,
                        self.policy,
                        ceiling=ceiling,
                        claim=claim,
                        realtime=realtime,
                    )
                    return again.level
        return asked.level


def _claim(text: str) -> Claim:
    claim = parse_claim(text)
    return claim if claim.text else tier_claim(text)
