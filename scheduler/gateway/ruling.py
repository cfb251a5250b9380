"""By which policy a request is decided: the active one, or a draft that its business tries."""

from collections.abc import Callable

from metering.core.facts import BusinessFacts
from metering.core.usage import UsageRow
from scheduler.canary import Meter, Trial
from scheduler.core.classify import Claim, Classification, classify
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Order, Policy

MS = 1_000_000


class Ruling:
    """One request's rules, fixed when it comes, and the lane that the active policy gives it
    (None: it did not get so far). ``counted``: the canary's meter has it already."""

    __slots__ = ("canary", "counted", "lane", "policy", "version")

    def __init__(self, policy: Policy, version: int, *, canary: bool) -> None:
        self.policy = policy
        self.version = version
        self.canary = canary
        self.lane: int | None = None
        self.counted = False

    @property
    def order(self) -> Order | None:
        """Weights of its place in the queue where they are not the active policy's."""
        return self.policy.order if self.canary else None

    def patience(self, lane: int) -> int | None:
        """The longest time (ns) in the queue where it is not the active policy's."""
        return self.policy.queue(lane).queue_timeout_ms * MS if self.canary else None


class Rules:
    """The active policy, and the canary beside it. One event loop."""

    def __init__(self) -> None:
        self.policy = Policy()
        self.version = 0
        self.trial: Trial | None = None
        self.meter = Meter()
        self.on_trial: Callable[[int], None] = lambda trial: None

    def follow(self, version: int, policy: Policy, trial: Trial | None) -> None:
        """Other rules for requests that come from now on."""
        self.version, self.policy, self.trial = version, policy, trial
        self.on_trial(0 if trial is None else trial.id)

    def of(self, business: str) -> Ruling:
        """The rules of a request that comes now."""
        trial = self.trial
        if trial is not None and business in trial.businesses:
            return Ruling(trial.policy, trial.version, canary=True)
        return Ruling(self.policy, self.version, canary=False)

    def classify(
        self,
        ruling: Ruling,
        business: BusinessFacts,
        model: ModelFacts,
        *,
        ceiling: int,
        claim: Claim,
        realtime: str | None,
    ) -> Classification:
        """Level and lane by the request's own rules."""
        found = classify(
            business, model, ruling.policy, ceiling=ceiling, claim=claim, realtime=realtime
        )
        ruling.lane = found.lane
        if ruling.canary:
            usual = classify(
                business, model, self.policy, ceiling=ceiling, claim=claim, realtime=realtime
            )
            ruling.lane = usual.lane
        return found

    def ended(self, ruling: Ruling, row: UsageRow) -> None:
        """A request is over: counted while a canary runs, if it came while the same rules held."""
        lane = ruling.lane
        if lane is not None and self._counts(ruling):
            budget = self.policy.queue(lane).latency_budget_ms
            self.meter.note(row, canary=ruling.canary, lane=lane, budget_ms=budget)

    def waits(self, ruling: Ruling, row: UsageRow, now: int) -> None:
        """A request is open: counted as late, once, when it has had no slot within its budget
        (``now`` is ns)."""
        lane = ruling.lane
        if lane is None or row.dispatched or not self._counts(ruling):
            return
        budget, waited = self.policy.queue(lane).latency_budget_ms, (now - row.received) / MS
        if budget is not None and waited > budget:
            ruling.counted = True
            self.meter.late(waited, canary=ruling.canary, lane=lane)

    def _counts(self, ruling: Ruling) -> bool:
        trial = self.trial
        if trial is None or ruling.counted:
            return False
        return ruling.version == (trial.version if ruling.canary else self.version)
