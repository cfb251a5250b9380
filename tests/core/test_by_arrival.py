"""Mode fifo: any free card for whoever came first, as schedulers without lanes have it."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Decision, Dispatch, Reject
from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.core.state import State
from scheduler.core.step import step
from scheduler.core.ticket import Resume, Ticket

from .scene import SECOND, Scene, card

OWN = PoolFacts("own", True, frozenset({0}))
FIFO = replace(Policy(), mode="fifo")


def own_card(policy: Policy) -> State:
    state = State(policy=policy)
    facts = ReplicaFacts("p", "", "vllm", OWN.name, 1, models={"chat": "chat"})
    step(state, events.ReplicaChanged(facts, OWN, True, 1), 1)
    return state


def arrive(state: State, name: str, lane: int) -> list[Decision]:
    ticket = Ticket(name, "shop", "chat", lane, 4 * lane, state.now, 500, 500)
    return step(state, events.Arrived(replace(ticket, resume=Resume.RESTART)), state.now + 1)


def started(decisions: list[Decision]) -> list[str]:
    return [each.request for each in decisions if isinstance(each, Dispatch)]


def test_a_card_kept_for_p0_takes_all_lanes_in_order_of_arrival() -> None:
    state = own_card(FIFO)
    assert started(arrive(state, "low", 2)) == ["low"]
    assert not started(arrive(state, "second", 2))
    assert not started(arrive(state, "urgent", 0))
    assert started(step(state, events.Finished("low", 1), state.now)) == ["second"]
    assert started(step(state, events.Finished("second", 1), state.now)) == ["urgent"]


def test_its_lanes_count_again_when_the_mode_changes() -> None:
    state = own_card(FIFO)
    arrive(state, "low", 2)
    arrive(state, "second", 2)
    step(state, events.PolicyChanged(Policy()), state.now)
    assert not started(step(state, events.Finished("low", 1), state.now))
    assert started(arrive(state, "urgent", 0)) == ["urgent"]
    assert isinstance(arrive(state, "third", 2)[0], Reject)


def behind_a_large_one(*more: str) -> Scene:
    """``small`` would fit into the card's KV cache, and waits behind ``large``, which came first
    and does not."""
    scene = Scene(card("k", 4, kv=1000), *(card(name, 1) for name in more), policy=FIFO)
    scene.arrive("fills", prompt=300, output=400)
    for name in more:
        scene.arrive(f"on-{name}", prompt=300, output=400)
    scene.arrive("large", prompt=300, output=400)
    scene.arrive("small", prompt=50, output=50)
    assert scene.waiting() == ["large", "small"]
    return scene


def test_when_the_first_goes_elsewhere_the_next_has_the_room_that_it_waited_for() -> None:
    scene = behind_a_large_one("other")
    assert scene.on("other") == ["on-other"]
    scene.finish("on-other")
    assert scene.where("large") == "other"
    assert scene.where("small") == "k"


def test_when_the_first_is_given_up_the_next_has_the_room_that_it_waited_for() -> None:
    scene = behind_a_large_one()
    scene.cancel("large")
    assert scene.where("small") == "k"


def test_when_the_first_may_run_no_more_the_next_has_the_room_that_it_waited_for() -> None:
    scene = Scene(card("k", 4, kv=1000), card("other", 1, "n"), policy=FIFO)
    scene.arrive("fills", prompt=300, output=400)
    scene.arrive("n-runs", model="n", business="capped")
    scene.arrive("n-next", model="n", business="capped")
    scene.arrive("large", business="capped", prompt=300, output=400)
    scene.arrive("small", prompt=50, output=50)
    scene.wait(SECOND)
    scene.limit("capped", running=1)
    assert scene.where("small") == "k"
