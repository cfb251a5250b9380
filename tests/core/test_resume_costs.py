"""What going on after a pause costs is learnt from how long it took."""

from scheduler.core.estimates import PREFILL_PRIOR, Estimates
from scheduler.core.ticket import Resume, Ticket

MS = 1_000_000


def ticket(prompt: int = 900) -> Ticket:
    return Ticket("q", "low", "chat", 2, 8, 0, prompt=prompt, resume=Resume.CONTINUE)


def test_before_it_was_measured_all_is_computed_again() -> None:
    estimates = Estimates()
    for _ in range(8):
        estimates.prefilled("chat", "r1", 500.0, 100 * MS, MS)
    assert estimates.resuming(ticket(), "r1", 100) == 200 * MS


def test_what_was_measured_counts_by_replica_and_size() -> None:
    """Restored in 50 ms here, computed again in 5 s there."""
    estimates = Estimates()
    for _ in range(20):
        estimates.resumed(ticket(), "restores", 100, 50 * MS)
        estimates.resumed(ticket(), "computes", 100, 5000 * MS)
    assert estimates.resuming(ticket(), "restores", 100) == 50 * MS
    assert estimates.resuming(ticket(), "computes", 100) == 5000 * MS
    assert estimates.resuming(ticket(1900), "computes", 100) == 10_000 * MS


def test_a_replica_that_was_replaced_is_measured_anew() -> None:
    estimates = Estimates()
    estimates.resumed(ticket(), "r1", 100, 50 * MS)
    estimates.resumed(ticket(), "r2", 100, 50 * MS)
    estimates.forget("r1")
    assert estimates.resuming(ticket(), "r1", 100) == 1000 * PREFILL_PRIOR
    assert estimates.resuming(ticket(), "r2", 100) == 50 * MS
