"""What is done where P0 of a model waits too long: model by model, and to nobody else."""

from dataclasses import replace

from scheduler.core.decisions import Kind, Notice, Reason, Throttle
from scheduler.core.policy import Policy
from scheduler.core.ticket import Resume

from .scene import MS, SECOND, URGENT, Scene, card
from .test_admission import measured


def kinds(scene: Scene) -> list[Kind]:
    return [item.kind for item in scene.log if isinstance(item, Notice)]


def told(scene: Scene, kind: Kind) -> list[str]:
    """The models that notices of a kind are about."""
    return [item.name for item in scene.log if isinstance(item, Notice) and item.kind is kind]


def acting(*actions: str) -> Policy:
    """The default policy but for what is done."""
    policy = Policy()
    return replace(policy, backpressure=replace(policy.backpressure, action=actions))


def pressed(*, policy: Policy | None = None) -> Scene:
    """P0 has waited for longer than it should, behind P1 that cannot be stopped."""
    scene = measured(policy=policy)
    scene.arrive("urgent", 0)
    scene.wait(2500 * MS)
    assert Kind.PRESSED in kinds(scene)
    return scene


def test_where_p0_waits_too_long_p2_is_held_and_not_refused() -> None:
    scene = pressed()
    scene.arrive("low", 2)
    scene.arrive("middle", 1)
    assert not scene.refused
    assert {"low", "middle"} <= set(scene.waiting())


def test_it_is_refused_where_the_policy_says_so() -> None:
    scene = pressed(policy=acting("throttle_P2", "refuse_P2"))
    scene.arrive("low", 2)
    assert scene.refused["low"].reason is Reason.BACKPRESSURE
    assert scene.refused["low"].retry_after >= 2 * SECOND
    scene.arrive("middle", 1)
    assert "middle" in scene.waiting()


def test_it_ends_when_p0_waits_no_longer() -> None:
    scene = pressed()
    scene.finish("held-0")
    scene.wait(200 * MS)
    assert kinds(scene)[-1] is Kind.RELIEVED
    scene.arrive("low", 2)
    assert "low" in scene.waiting()


def test_between_the_two_thresholds_it_stays_as_it_is() -> None:
    scene = measured()
    scene.arrive("urgent", 0)
    scene.wait(1500 * MS)
    assert not kinds(scene)
    scene = pressed()
    scene.finish("held-0")
    # The next urgent one has waited for less than sets it off, but for more than ends it.
    scene.arrive("later", 0, arrived=scene.now - 1500 * MS)
    scene.wait(200 * MS)
    assert Kind.RELIEVED not in kinds(scene)


def test_p0_that_its_own_limit_holds_back_is_no_reason() -> None:
    scene = measured(slots=1)
    scene.finish("held-0")
    scene.limit("greedy", running=1)
    for number in range(5):
        scene.arrive(f"g{number}", 0, business="greedy")
    scene.wait(10 * SECOND)
    assert Kind.PRESSED not in kinds(scene)


def throttles(scene: Scene) -> list[tuple[float, float]]:
    return [(item.share, item.least) for item in scene.log if isinstance(item, Throttle)]


def test_p2s_rates_are_halved_each_interval_down_to_the_floor() -> None:
    scene = pressed()
    assert throttles(scene) == [(0.5, 0.1)]
    scene.wait(5 * SECOND)
    assert throttles(scene)[1:] == [(0.25, 0.1)]
    scene.wait(10 * SECOND)
    assert throttles(scene)[2:] == [(0.125, 0.1), (0.1, 0.1)]
    shown = [item for item in scene.log if isinstance(item, Notice)]
    assert [n.value for n in shown if n.kind is Kind.THROTTLED] == [50, 25, 12, 10]


def test_they_come_back_step_by_step_and_no_sooner() -> None:
    scene = pressed()
    scene.finish("held-0")
    scene.wait(200 * MS)
    # It is known that it falls no further, and only later that it rises.
    assert throttles(scene)[1:] == [(0.5, 0.5)]
    scene.wait(60 * SECOND)
    shares = [share for share, _ in throttles(scene)[2:]]
    assert shares == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert kinds(scene)[-1] is Kind.THROTTLED
    assert not scene.state.pressure.models


def test_a_policy_that_does_not_throttle_slows_nothing_and_one_that_stops_gives_all_back() -> None:
    policy = Policy()
    without = replace(policy, backpressure=replace(policy.backpressure, action=("scale_gpu",)))
    scene = measured(policy=without)
    scene.arrive("urgent", 0)
    scene.wait(10 * SECOND)
    assert not throttles(scene)
    scene = pressed()
    scene.rules(without)
    scene.wait(SECOND)
    assert throttles(scene)[-1] == (1.0, 1.0)


def test_the_floor_is_never_nothing() -> None:
    policy = Policy()
    pressure = policy.backpressure
    low = replace(pressure, throttle=replace(pressure.throttle, floor=0.0))
    scene = measured(policy=replace(policy, backpressure=low))
    scene.arrive("urgent", 0)
    scene.wait(29 * SECOND)
    assert throttles(scene)[0] == (0.5, 0.01)
    assert min(share for share, _ in throttles(scene)) >= 0.01


# Model by model.


def waits_for(scene: Scene, model: str, seconds: float = 3.0) -> None:
    """P0 waits for the model's slots, all held by others."""
    scene.arrive(f"{model}-waits", 0, model=model, business="bank")
    scene.wait(int(seconds * SECOND))
    assert scene.state.pressure.pressed() == [model]


def three() -> Scene:
    """Model a on a card of its own that is full; b and c elsewhere, b with a second card that it
    shares with a."""
    scene = Scene(card("A", 1, "a"), card("AB", 1, "a", "b"), card("B", 4, "b"), card("C", 4, "c"))
    for number in range(2):
        scene.arrive(f"a-{number}", 0, model="a")
    return scene


def test_p2_of_models_that_share_no_card_with_it_runs_as_ever() -> None:
    scene = three()
    waits_for(scene, "a")
    for model in ("b", "c"):
        scene.arrive(f"low-{model}", 2, model=model)
        assert scene.where(f"low-{model}") == model.upper()
    assert not scene.refused
    (throttle,) = [item for item in scene.log if isinstance(item, Throttle)]
    assert (throttle.model, throttle.models) == ("a", frozenset({"a", "b"}))
    assert told(scene, Kind.PRESSED) == told(scene, Kind.THROTTLED) == ["a"]


def test_p0_of_one_model_is_looked_at_by_itself() -> None:
    """That P0 of another one waits long says nothing of its own."""
    scene = three()
    waits_for(scene, "a")
    for number in range(4):
        scene.arrive(f"c-{number}", 0, model="c")
    scene.arrive("c-waits", 0, model="c", business="bank")
    scene.wait(SECOND)
    assert scene.state.pressure.pressed() == ["a"]
    scene.wait(2 * SECOND)
    assert scene.state.pressure.pressed() == ["a", "c"]
    scene.finish("a-0")
    scene.wait(200 * MS)
    assert scene.state.pressure.pressed() == ["c"]
    assert told(scene, Kind.RELIEVED) == ["a"]


def test_p2_stays_queued_where_that_p0_may_run_and_the_guard_still_acts() -> None:
    """Here P0 has no room in the KV cache of a card whose slots are free."""
    policy = Policy()
    p2 = replace(policy.queues.P2, max_wait_ms=20_000)
    policy = replace(policy, queues=replace(policy.queues, P2=p2))
    scene = Scene(card("k", 4, kv=1000), policy=policy)
    scene.arrive("fills", 1, prompt=300, output=500)
    scene.arrive("large", 0, prompt=300, output=500, business="bank")
    scene.wait(3 * SECOND)
    assert scene.state.pressure.pressed() == ["m"]
    scene.arrive("low", 2, prompt=10, output=10)
    assert "low" in scene.waiting()
    scene.finish("fills")
    assert scene.where("large") == "k"
    scene.wait(200 * MS)
    assert scene.where("low") == "k"


def test_overdue_p2_gets_its_slots_all_the_same() -> None:
    policy = Policy()
    p2 = replace(policy.queues.P2, max_wait_ms=5000)
    policy = replace(policy, queues=replace(policy.queues, P2=p2))
    scene = measured(slots=4, policy=policy)
    scene.arrive("urgent", 0)
    scene.arrive("low", 2)
    scene.wait(6 * SECOND)
    assert scene.state.pressure.pressed() == ["m"]
    scene.finish("held-0")
    assert "low" in scene.running
    assert scene.promoted() == ["low"]


def test_work_that_gives_way_elsewhere_is_none_that_gives_way_here() -> None:
    """P2 that could be stopped runs beside another model: what P0 of this one would wait is
    foreseen all the same."""
    scene = Scene(card("A", 1, "a"), card("B", 1, "b"))
    for number in range(20):
        scene.arrive(f"known-{number}", 0, model="a")
        scene.now += 5 * SECOND
        scene.finish(f"known-{number}")
    scene.arrive("b-low", 2, model="b", prompt=10, output=5000, resume=Resume.CONTINUE)
    scene.arrive("a-runs", 0, model="a")
    for number in range(4):
        scene.arrive(f"a-{number}", 0, model="a")
    scene.wait(200 * MS)
    # Four before it, five seconds each.
    assert scene.state.pressure.pressed() == ["a"]


def test_where_work_gives_way_only_what_was_waited_counts() -> None:
    scene = Scene(card("A", 1, "a"))
    for number in range(20):
        scene.arrive(f"known-{number}", 0, model="a")
        scene.now += 5 * SECOND
        scene.finish(f"known-{number}")
    scene.arrive("low", 2, model="a", prompt=10, output=5000, resume=Resume.CONTINUE)
    for number in range(4):
        scene.arrive(f"a-{number}", 0, model="a")
    scene.wait(200 * MS)
    assert not scene.state.pressure.pressed()


def test_new_p2_is_refused_only_where_it_could_run_nowhere() -> None:
    """With the action: model b has a card that P0 of a cannot use, a has none."""
    scene = three()
    scene.rules(acting("refuse_P2"))
    waits_for(scene, "a")
    for model in ("a", "b", "c"):
        scene.arrive(f"low-{model}", 2, model=model)
    assert {name: r.reason for name, r in scene.refused.items()} == {"low-a": Reason.BACKPRESSURE}
    # Nothing else is done about it: it is not held, nor are rates slowed.
    assert not [item for item in scene.log if isinstance(item, Throttle)]
    assert not any(replica.held for replica in scene.state.replicas.values())


def test_a_model_that_no_replica_serves_is_refused_for_that() -> None:
    """Whatever waits for others: to come again when pressure is over would be of no use."""
    scene = pressed(policy=acting("throttle_P2", "refuse_P2"))
    scene.arrive("low", 2, model="nowhere")
    assert scene.refused["low"].reason is Reason.NO_CAPACITY
    for name in list(scene.state.replicas):
        scene.remove(name)
    scene.arrive("later", 2)
    assert scene.refused["later"].reason is Reason.NO_CAPACITY


def test_p2_runs_where_p0_may_not_by_its_levels() -> None:
    scene = Scene(card("all", 1), card("low", 1, levels=(5, 9)))
    scene.arrive("runs", 0)
    scene.arrive("waits", 0)
    scene.wait(3 * SECOND)
    assert scene.state.pressure.pressed() == ["m"]
    scene.arrive("low", 2)
    assert scene.where("low") == "low"


def test_replicas_that_come_or_go_meanwhile_are_seen_to() -> None:
    scene = three()
    waits_for(scene, "a")
    (there,) = scene.on("AB")
    scene.remove("AB")
    scene.cancel(there)
    scene.wait(200 * MS)
    last = [item for item in scene.log if isinstance(item, Throttle)][-1]
    assert last.models == frozenset({"a"})
    scene.add(*card("AC", 1, "a", "c"))
    scene.wait(SECOND)
    # The new one has taken the P0 that waited.
    assert scene.where("a-waits") == "AC"
    assert scene.state.pressure.pressed() == []


def test_lent_slots_of_a_dedicated_pool_are_held_too() -> None:
    policy = Policy()
    lending = replace(policy.lending, enabled=True, keep_free=0)
    scene = Scene(card("u", 2, pool=URGENT, kv=1000), policy=replace(policy, lending=lending))
    scene.arrive("fills", 0, prompt=300, output=500)
    scene.arrive("large", 0, prompt=300, output=500, business="bank")
    scene.wait(3 * SECOND)
    assert scene.state.pressure.pressed() == ["m"]
    scene.arrive("low", 2)
    assert "low" not in scene.running


def test_mode_weighted_keeps_p2_from_nothing() -> None:
    scene = measured(policy=replace(Policy(), mode="weighted"))
    scene.arrive("urgent", 0)
    scene.wait(3 * SECOND)
    assert scene.state.pressure.pressed() == ["m"]
    assert not any(replica.held for replica in scene.state.replicas.values())


def test_mode_fifo_knows_no_pressure() -> None:
    scene = pressed()
    scene.rules(replace(Policy(), mode="fifo"))
    scene.wait(200 * MS)
    assert scene.state.pressure.pressed() == []


def test_p0_that_must_avoid_what_is_free_holds_nobody_back() -> None:
    scene = Scene(card("a", 2), card("b", 1))
    for name in ("one", "two", "three"):
        scene.arrive(name, 0)
    scene.fail(next(name for name in scene.running if scene.where(name) == "a"))
    assert len(scene.waiting()) == 1
    scene.wait(3 * SECOND)
    scene.arrive("low", 2)
    assert scene.where("low") == "a"
