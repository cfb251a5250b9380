"""The two log lines that operators grep for. Their form is part of the contract."""

from metering.core.facts import LANES

MS = 1_000_000


def preempt_line(
    victim: str, victim_lane: int, beneficiary: str, lane: int, *, saved: bool, remain: int
) -> str:
    """A running request makes room. ``saved``: what it has computed is kept; ``remain`` is
    the time it would still have run, in ns."""
    return (
        f"preempt {LANES[victim_lane]} batch bid={victim} to serve {LANES[lane]}"
        f" req={beneficiary} kv_snapshot_saved={'true' if saved else 'false'}"
        f" est_remain={round(remain / MS)}ms gain>cost"
    )


def promote_line(request: str, lane: int) -> str:
    """An overdue request gets a slot before anybody else."""
    return (
        f"{LANES[lane]} req {request} hit max_wait_ms,"
        f" promote to {LANES[max(0, lane - 1)]} once (starvation guard)"
    )
