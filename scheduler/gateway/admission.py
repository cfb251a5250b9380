"""What a request is allowed to be: its model, its level and lane, and how it may be paused."""

from typing import TYPE_CHECKING

from metering.core.facts import LANES
from metering.core.usage import UsageRow
from scheduler.core.classify import Claim, Classification, tier_claim
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .answer import Assembler
from .callers import Caller
from .errors import GatewayError
from .incoming import MS, Incoming, check_tag
from .payload import Payload, invalid
from .ruling import Ruling
from .story import Story
from .transcript import continuable, stops_of

if TYPE_CHECKING:
    from .app import Gateway

MOST_NAME = 200
BUDGET = "X-Latency-Budget-Ms"
LOWEST = 2


def admit(
    gateway: "Gateway",
    ruling: Ruling,
    incoming: Incoming,
    caller: Caller,
    payload: Payload,
    row: UsageRow,
) -> Classification:
    """Level and lane by the request's rules, noted on the row. Raises 403 and 404."""
    business = caller.business
    check_tag(incoming, business)
    model = gateway.fleet.models.get(payload.model)
    if model is None:
        name = payload.model[:MOST_NAME]
        raise GatewayError("model_not_found", f"The model '{name}' does not exist.", param="model")
    if business.models is not None and payload.model not in business.models:
        raise GatewayError(
            "model_not_allowed", f"This key may not use '{payload.model}'.", param="model"
        )
    claim = incoming.claim if incoming.claim.text else tier_claim(payload.service_tier)
    found = gateway.rules.classify(
        ruling,
        business,
        model,
        ceiling=caller.ceiling,
        claim=claim,
        realtime=incoming.realtime,
    )
    row.claimed, row.base_level = claim.text, found.base_level
    row.level, row.lane = found.level, LANES[found.lane]
    if found.escalation:
        _escalated(gateway, ruling, caller, claim, row)
    return found


def budget_of(
    incoming: Incoming, caller: Caller, policy: Policy, found: Classification
) -> int | None:
    """Within which time from arrival (ns) the request is due, by the caller, its business or
    its lane; None: at any time. A business's own holds in the lane that its work has by itself
    and above: what it sends into a lower one can wait as long as that. Raises 400."""
    asked = incoming.latency_budget
    if asked is not None:
        if not asked:
            raise invalid("The latency budget must be a number of milliseconds.", BUDGET)
        return asked
    millis = caller.business.latency_budget_ms
    if millis is None or found.lane > policy.lane_of(found.base_level):
        millis = policy.queue(found.lane).latency_budget_ms
    return None if millis is None else millis * MS


def _escalated(
    gateway: "Gateway", ruling: Ruling, caller: Caller, claim: Claim, row: UsageRow
) -> None:
    """A claim above the ceiling: counted, audited, and refused where the policy says so."""
    best, outcome = LANES[caller.ceiling], ruling.policy.classification.on_escalation
    gateway.stats.metrics.escalation(row.business)
    gateway.escalations.note(
        row.business,
        claimed=claim.text,
        ceiling=best,
        outcome=outcome,
        request=row.id,
        wall=gateway.clock.wall(),
    )
    if outcome == "refuse":
        raise GatewayError(
            "priority_not_allowed", f"This key may claim {best} at most.", param="priority"
        )


def lighter_than(
    gateway: "Gateway", ruling: Ruling, caller: Caller, model: str, operation: str
) -> tuple[str, ...]:
    """The models that may answer in place of the requested one, the nearest first: none unless
    the policy and the business have it so, and never another embedding, which compares with
    nothing that the caller has."""
    allowed, models = caller.business, gateway.fleet.models
    if not ruling.policy.admission.degrade or not allowed.degrade or operation == "embeddings":
        return ()
    found = [model]
    for name in found:
        found += sorted(n for n, m in models.items() if m.lighter_of == name and n not in found)
    task = models[model].task
    return tuple(
        name
        for name in found[1:]
        if models[name].task == task and (allowed.models is None or name in allowed.models)
    )


def story_of(payload: Payload, operation: str, lane: int) -> Story | None:
    """The story of a request whose answer can go on elsewhere. Plain calls get one in the
    lowest lane alone, for nobody pauses the others: they are simply made again."""
    if not continuable(payload, operation) or not (payload.stream or lane == LOWEST):
        return None
    assembler = None if payload.stream else Assembler(operation)
    return Story(stops_of(payload), assembler, most=payload.output_tokens)


def resume_of(story: Story | None) -> Resume:
    """Without a story it may start again as long as nothing of it has gone out."""
    return Resume.RESTART if story is None else Resume.CONTINUE
