"""What becomes of those that were stopped: back to the head, and not again and again (C04)."""

from dataclasses import replace

import pytest

from scheduler.core import events
from scheduler.core.invariants import check_rest
from scheduler.core.policy import Policy, Preemption
from scheduler.core.ticket import Resume, Ticket

from .clockwork import Clockwork, every
from .scene import MS, SECOND, START, Scene, card


def low(scene: Scene, name: str, **fields: object) -> None:
    settings: dict[str, object] = {
        "level": 8,
        "business": "batch",
        "prompt": 100,
        "output": 3000,
        "resume": Resume.RESTART,
        **fields,
    }
    scene.arrive(name, 2, **settings)  # type: ignore[arg-type]


def paused(*, resume: Resume = Resume.RESTART, produced: int = 0) -> Scene:
    """One slot: ``a`` ran, was stopped for ``urgent``, and waits."""
    scene = Scene(card("c", 1))
    low(scene, "a", resume=resume)
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["a"]
    scene.wait(20 * MS)
    scene.stop("a", produced)
    assert scene.on("c") == ["urgent"]
    return scene


@pytest.mark.parametrize("level", [7, 8, 9])
@pytest.mark.parametrize("business", ["batch", "other"])
@pytest.mark.parametrize("output", [3000, 10])
def test_the_victim_restarts_before_a_later_arrival(level: int, business: str, output: int) -> None:
    scene = paused()
    low(scene, "b", level=level, business=business, output=output)
    scene.wait(SECOND)
    scene.finish("urgent")
    assert scene.on("c") == ["a"]
    assert scene.running["a"].attempt == 2
    assert scene.running["a"].waited == scene.now - START
    assert scene.drain() == ["b"]


def test_it_goes_before_those_of_its_queue_that_waited_all_the_time() -> None:
    scene = Scene(card("c", 1))
    low(scene, "a", level=9)
    for number in range(5):
        low(scene, f"waiting-{number}", level=7, output=10)
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    scene.stop("a")
    scene.finish("urgent")
    assert scene.on("c") == ["a"]


def test_victims_return_in_the_order_of_their_arrival() -> None:
    scene = Scene(card("c", 3))
    for name in "abc":
        low(scene, name)
        scene.wait(100 * MS)
    for name in ("u1", "u2", "u3"):
        scene.arrive(name, 0)
    low(scene, "later")
    for name in ("b", "c", "a"):
        scene.stop(name)
    scene.finish("u1", "u2", "u3")
    assert scene.started[-3:] == ["a", "b", "c"]


def test_its_business_is_charged_for_the_work_once() -> None:
    scene = paused()
    assert scene.state.tenants["batch"].served[2] == 0.0
    scene.wait(SECOND)
    scene.finish("urgent")
    scene.wait(10 * SECOND)
    scene.finish("a")
    assert scene.state.tenants["batch"].served[2] == pytest.approx(10 * SECOND)


def test_what_goes_on_is_charged_for_both_parts() -> None:
    scene = paused(resume=Resume.CONTINUE, produced=40)
    scene.finish("urgent")
    scene.wait(10 * SECOND)
    scene.finish("a")
    assert scene.state.tenants["batch"].served[2] == pytest.approx(11 * SECOND + 20 * MS)


def test_going_on_is_expected_to_take_the_rest_only() -> None:
    scene = paused(resume=Resume.CONTINUE, produced=400)
    scene.finish("urgent")
    again = scene.state.requests["a"]
    assert again.produced == 400
    # Of 512 tokens to expect 112 are left, and the rest to read again.
    assert again.estimate < 3 * SECOND
    # Prompt and all the output are in the cache once more.
    assert again.kv == 0
    wide = Scene(card("c", 2, kv=10_000))
    low(wide, "a", resume=Resume.CONTINUE)
    before = wide.state.replicas["c"].kv_used
    wide.stop("a", 400)
    assert wide.state.replicas["c"].kv_used == before


def test_a_victim_returns_to_the_replica_that_still_holds_its_prefix() -> None:
    for _ in range(2):
        scene = Scene(card("a", 2), card("b", 2))
        low(scene, "low", resume=Resume.CONTINUE)
        home = scene.where("low")
        scene.stop("low", 100)
        assert scene.where("low") == home


def test_it_can_go_on_elsewhere() -> None:
    scene = Scene(card("a", 1), card("b", 1))
    low(scene, "low", resume=Resume.CONTINUE)
    home = scene.where("low")
    scene.arrive("held", 0)
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["low"]
    scene.stop("low", 100)
    assert scene.where("urgent") == home
    scene.finish("held")
    assert scene.where("low") != home


def test_a_request_is_stopped_at_most_so_often() -> None:
    scene = Scene(card("c", 1))
    low(scene, "a", resume=Resume.CONTINUE)
    for number in range(6):
        scene.wait(5 * SECOND)
        scene.arrive(f"u{number}", 0)
        if scene.stopped()[number:]:
            scene.stop("a", 10)
        if f"u{number}" in scene.running:
            scene.finish(f"u{number}")
    assert scene.stopped() == ["a", "a"]
    scene.finish("a")
    assert scene.on("c") == ["u2"]
    assert len(scene.drain()) == 3


def test_it_rests_between_two_pauses() -> None:
    scene = paused(resume=Resume.CONTINUE, produced=10)
    scene.finish("urgent")
    scene.wait(1900 * MS - 20 * MS)
    scene.arrive("next", 0)
    assert scene.stopped() == ["a"]
    scene.wait(200 * MS)
    assert scene.stopped() == ["a", "a"]


def test_a_victim_that_ends_before_it_stops_is_over() -> None:
    scene = Scene(card("c", 1))
    low(scene, "a")
    scene.arrive("urgent", 0)
    assert scene.stopped() == ["a"]
    scene.finish("a")
    assert scene.on("c") == ["urgent"]
    assert not scene.waiting()
    assert (scene.state.yielding, scene.state.stoppable) == (0, 0)


def test_a_victim_whose_caller_leaves_hands_its_slot_on() -> None:
    scene = Scene(card("c", 1))
    low(scene, "a")
    scene.arrive("urgent", 0)
    scene.cancel("a")
    assert scene.on("c") == ["urgent"]
    assert scene.state.yielding == 0


def test_a_beneficiary_who_leaves_gives_the_slot_back_to_the_victim() -> None:
    scene = Scene(card("c", 1))
    low(scene, "a")
    scene.arrive("urgent", 0)
    scene.cancel("urgent")
    scene.stop("a")
    assert scene.on("c") == ["a"]
    assert scene.running["a"].attempt == 2


def test_under_a_steady_trickle_of_p0_everybody_ends_and_nobody_swaps_for_ever() -> None:
    """Two equal jobs beside P0 every three seconds: each is stopped twice at most, and done."""
    scene = Scene(card("c", 1))
    jobs = [
        Ticket(f"low-{name}", "batch", "m", 2, 8, START + n, 100, 512, None, Resume.RESTART)
        for n, name in enumerate("ab")
    ]
    urgent = every(
        3 * SECOND,
        START + SECOND,
        START + 120 * SECOND,
        lambda number, at: Ticket(f"u{number}", "shop", "m", 0, 0, at),
    )
    clock = Clockwork(scene, lambda ticket, _: (100 * MS, 0, 10 * SECOND)[ticket.lane])
    clock.run([*jobs, *urgent])
    assert len(clock.accounts) == 42
    for account in clock.accounts.values():
        assert account.ended is not None
        assert account.pauses <= Preemption().max_per_request
    first, second = (clock.accounts[f"low-{name}"] for name in "ab")
    assert first.ended is not None
    assert second.ended is not None
    assert first.ended < second.ended
    # The second started only when the first was done: they never swapped places.
    assert second.started is not None
    assert second.started >= first.ended


def test_none_is_stopped_for_ever_without_an_answer() -> None:
    """A time limit in the queue ends it clearly."""
    queues = Policy().queues
    policy = replace(Policy(), queues=replace(queues, P2=replace(queues.P2, queue_timeout_ms=5000)))
    scene = Scene(card("c", 1), policy=policy)
    low(scene, "a")
    scene.wait(SECOND)
    scene.arrive("urgent", 0)
    scene.stop("a")
    scene.wait(6 * SECOND)
    assert list(scene.refused) == ["a"]
    assert not scene.waiting()


def test_who_was_stopped_as_often_as_it_may_be_is_looked_at_by_no_event() -> None:
    """Until a policy lets it be stopped once more."""
    once = replace(Policy(), preemption=replace(Policy().preemption, max_per_request=1))
    scene = Scene(card("a"), policy=once)
    scene.arrive("low", 2, prompt=100, output=3_000, resume=Resume.CONTINUE)
    assert scene.state.stoppable == 1
    scene.arrive("urgent", 0)
    scene.stop("low", produced=10)
    scene.finish("urgent")
    assert "low" in scene.running
    assert scene.state.stoppable == 0
    assert not scene.state.replicas["a"].stoppable
    scene.wait(60 * SECOND)
    scene.arrive("again", 0)
    assert scene.stopped() == ["low"]
    scene.step(events.PolicyChanged(Policy()))
    assert scene.state.stoppable == 1
    scene.wait(SECOND)
    assert scene.stopped() == ["low", "low"]
    scene.stop("low", produced=20)
    scene.finish("again", "low")
    check_rest(scene.state)
