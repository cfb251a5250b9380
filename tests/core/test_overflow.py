"""P0 spills over from its own pool whatever backlog lower lanes have."""

from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Preempt
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

SECOND = 1_000_000_000
OWN = PoolFacts("own", True, frozenset({0}))
SHARED = PoolFacts("shared", False, frozenset({0, 1, 2}))


def card(name: str, pool: PoolFacts, slots: int = 2) -> events.ReplicaChanged:
    facts = ReplicaFacts(name, "", "vllm", pool.name, slots, models={"chat": "chat"})
    return events.ReplicaChanged(facts, pool, True, 1)


def ticket(name: str, lane: int, now: int) -> Ticket:
    resume = Resume.NEVER if lane == 0 else Resume.CONTINUE
    return Ticket(
        name, f"business-{lane}", "chat", lane, 4 * lane, now, prompt=500, output=500, resume=resume
    )


def test_a_backlog_of_p2_does_not_price_p0_out_of_the_shared_cards() -> None:
    state, now = State(), SECOND
    for change in (card("p", OWN), card("s", SHARED)):
        step(state, change, now)
    for number in range(20):
        # Whatever runs takes ten seconds, on both cards.
        lane = 2 * (number % 2)
        step(state, events.Arrived(ticket(f"first-{number}", lane, now)), now)
        now += 10 * SECOND
        step(state, events.Finished(f"first-{number}", 1, 500, 500), now)
    for number in range(500):
        step(state, events.Arrived(ticket(f"low-{number}", 2, now)), now)
    for number in range(5):
        # Time for several layouts.
        now += SECOND
        step(state, events.Arrived(ticket(f"urgent-{number}", 0, now)), now)
    assert state.layout.plan.load > 1
    out = step(state, events.Finished("low-0", 1, 500, 500), now)
    given = [decision for decision in out if isinstance(decision, Dispatch)]
    assert [(decision.request, decision.replica) for decision in given] == [("urgent-2", "s")]


def test_a_slot_that_was_taken_back_goes_to_who_it_was_taken_for() -> None:
    """The shared card is another one, which the plan keeps for the backlog alone."""
    state, now = State(), SECOND
    for change in (card("p", OWN), card("s", SHARED, slots=3)):
        step(state, change, now)
    for number in range(20):
        lane = 2 * (number % 2)
        step(state, events.Arrived(ticket(f"first-{number}", lane, now)), now)
        now += 10 * SECOND
        step(state, events.Finished(f"first-{number}", 1, 500, 500), now)
    for number in range(500):
        step(state, events.Arrived(ticket(f"low-{number}", 2, now)), now)
    now += 3 * SECOND
    step(state, events.Tick(), now)
    assert "s" not in {r.facts.name for tier in state.layout.sets["chat", 0] for r in tier}
    out: list[Decision] = []
    for number in range(3):
        out += step(state, events.Arrived(ticket(f"urgent-{number}", 0, now)), now)
    (stopped,) = [decision for decision in out if isinstance(decision, Preempt)]
    assert stopped.beneficiary == "urgent-2"
    out = step(state, events.Yielded(stopped.request, stopped.attempt), now)
    given = [decision for decision in out if isinstance(decision, Dispatch)]
    assert [(decision.request, decision.replica) for decision in given] == [("urgent-2", "s")]
