"""From the scheduler's frame to what one audience may see: by picking, never by removing."""

from collections.abc import Iterable, Mapping

from metering.core.facts import LANES
from scheduler.live import FeedItem, LaneLive, LiveFrame, PoolLive, ReplicaLive

from .history import COMPLETION, FINISHED, PAUSED, PROMOTED, PROMPT, REFUSED, History
from .messages import (
    BusinessNow,
    FeedLine,
    LaneNow,
    OperationsNow,
    OwnFeedLine,
    PoolNow,
    ReplicaNow,
)

IDLE = LaneLive()


def operations_now(frame: LiveFrame, history: History) -> OperationsNow:
    """The whole fleet, for those who run it."""
    return OperationsNow(
        lanes=_lanes(frame.lanes, history, frame.at),
        pressed=list(frame.pressed),
        pools=[_pool(pool) for pool in frame.pools],
        replicas=[_replica(replica) for replica in frame.replicas],
        refusals=history.reasons(frame.at),
        prompt_per_s=history.rate(PROMPT, frame.at),
        completion_per_s=history.rate(COMPLETION, frame.at),
        predictor_error={lane: frame.predictor_error.get(lane) for lane in LANES},
    )


def business_now(frame: LiveFrame, business: str, history: History) -> BusinessNow:
    """One business's own part of the frame; zeros where it has none."""
    own = frame.businesses.get(business)
    return BusinessNow(
        business=business,
        lanes=_lanes({} if own is None else own.lanes, history, frame.at),
        refusals=history.reasons(frame.at),
        prompt_tokens=history.total(PROMPT, frame.at),
        completion_tokens=history.total(COMPLETION, frame.at),
    )


def feed_lines(items: Iterable[FeedItem]) -> list[FeedLine]:
    """The feed for the operators."""
    return [
        FeedLine(
            at=item.at,
            kind=item.kind,
            text=item.text,
            business=item.business,
            lane=item.lane,
            request=item.request,
        )
        for item in items
    ]


def own_feed_lines(items: Iterable[FeedItem]) -> list[OwnFeedLine]:
    """The feed of one business, from items that are its own already."""
    return [
        OwnFeedLine(at=item.at, kind=item.kind, lane=item.lane, request=item.request)
        for item in items
    ]


def _lanes(lanes: Mapping[str, LaneLive], history: History, now: int) -> dict[str, LaneNow]:
    found = {}
    for index, name in enumerate(LANES):
        lane = lanes.get(name, IDLE)
        found[name] = LaneNow(
            queued=lane.queued,
            running=lane.running,
            p50=round(lane.wait_p50_ms, 1),
            p95=round(lane.wait_p95_ms, 1),
            p99=round(lane.wait_p99_ms, 1),
            per_s=history.rate(FINISHED + index, now),
            finished=history.total(FINISHED + index, now),
            refused=history.total(REFUSED + index, now),
            paused=history.total(PAUSED + index, now),
            promoted=history.total(PROMOTED + index, now),
        )
    return found


def _pool(pool: PoolLive) -> PoolNow:
    return PoolNow(
        name=pool.name,
        dedicated=pool.dedicated,
        lanes=list(pool.lanes),
        running=pool.running,
        slots=pool.slots,
        ready=pool.ready,
        wanted=pool.wanted,
    )


def _replica(replica: ReplicaLive) -> ReplicaNow:
    return ReplicaNow(
        name=replica.name,
        pool=replica.pool,
        engine=replica.engine,
        state=replica.state,
        running=replica.running,
        slots=replica.slots,
        gpu=replica.gpu,
        memory=replica.memory,
        queue=replica.queue,
        models=list(replica.models),
        breaker=replica.breaker,
        broken=list(replica.broken),
    )
