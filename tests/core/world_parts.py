"""The fleet and the policies that the random world draws from."""

from dataclasses import replace

from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy

MS = 1_000_000
SECOND = 1000 * MS
POOLS = {
    "urgent": PoolFacts("urgent", True, frozenset({0})),
    "shared": PoolFacts("shared", False, frozenset({0, 1, 2})),
}
MODELS = ("a", "b")
BUSINESSES = ("north", "south", "east")


def fleet() -> dict[str, ReplicaFacts]:
    """Five replicas: one dedicated, one with little KV cache, one for some levels only, and one
    on the cold path."""
    both = {"a": "a", "b": "b"}
    return {
        "u1": ReplicaFacts("u1", "", "vllm", "urgent", 2, models=both),
        "s1": ReplicaFacts("s1", "", "vllm", "shared", 3, models=both),
        "s2": ReplicaFacts("s2", "", "vllm", "shared", 2, kv_tokens=900, models={"a": "a"}),
        "s3": ReplicaFacts("s3", "", "vllm", "shared", 2, models=both, levels=(2, 8)),
        "z1": ReplicaFacts("z1", "", "vllm", "shared", 1, models={"b": "b"}, hot=False),
    }


def policies() -> list[Policy]:
    """The default, and one per feature that changes who may run where."""
    base = Policy()
    p2 = base.queues.P2
    impatient = replace(p2, max_wait_ms=2000, queue_timeout_ms=20_000)
    hard = replace(impatient, borrow=False, max_occupy=0.3)
    eager = replace(
        base.feedback,
        hold_ticks=1,
        min_requests=1,
        p95_factor=0.01,
        p95_clear=0.001,
        cost_factor=0.2,
        cost_clear=0.1,
        backlog_s=0.2,
        backlog_clear_s=0.1,
    )
    return [
        base,
        replace(base, feedback=eager, queues=replace(base.queues, P2=impatient)),
        replace(base, mode="weighted", feedback=eager),
        replace(base, queues=replace(base.queues, P2=impatient)),
        replace(base, queues=replace(base.queues, P2=hard)),
        replace(base, lending=replace(base.lending, enabled=True, keep_free=0)),
        replace(base, mode="weighted", queues=replace(base.queues, P2=impatient)),
        replace(base, mode="fifo"),
        replace(
            base,
            queues=replace(base.queues, P2=impatient),
            preemption=replace(base.preemption, enabled=False),
            backpressure=replace(base.backpressure, p0_wait_ms=100, clear_ms=50),
        ),
        replace(base, mode="weighted", queues=replace(base.queues, P2=hard)),
        replace(
            base,
            lending=replace(base.lending, enabled=True, keep_free=1),
            queues=replace(base.queues, P1=replace(base.queues.P1, preempt=True), P2=hard),
        ),
        replace(
            base,
            queues=replace(
                base.queues,
                P0=replace(base.queues.P0, overflow=False),
                P2=replace(impatient, shared_pool="shared"),
            ),
        ),
        replace(
            base,
            queues=replace(
                base.queues, P0=replace(base.queues.P0, on_timeout="move_down", max_queue=5)
            ),
        ),
    ]
