"""When a replica that comes and goes may serve: on times of the test's own."""

from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.core.policy import Failover
from scheduler.health_watch import Watch

RULES = Failover()


def watched() -> Watch:
    facts = ReplicaFacts("r1", "http://127.0.0.1:1", "vllm", "pool", 4)
    return Watch(facts, PoolFacts("pool", False, frozenset({0, 1, 2})), 1)


def serving(watch: Watch, well: list[bool], began: int = 0) -> list[bool]:
    """Whether it serves, second by second, of a replica that is well or not."""
    found = []
    for second, now in enumerate(range(began, began + len(well))):
        watch.note(well=well[second], gone=False, now=float(now))
        watch.ready = watch.may_serve(float(now), RULES)
        found.append(watch.ready)
    return found


def test_a_replica_that_is_well_serves_at_once() -> None:
    assert serving(watched(), [True] * 3) == [True] * 3
    assert serving(watched(), [False, False, True, True]) == [False, False, True, True]


def test_one_that_was_away_once_or_twice_is_back_at_once() -> None:
    well = [True, True, False, True, False, True, True]
    assert serving(watched(), well) == well


def test_one_that_flaps_every_five_seconds_is_left_out_until_it_stays() -> None:
    """It serves three times, and then not before it has been well for ``open_s``."""
    watch = watched()
    flapping = ([True] * 5 + [False] * 5) * 12
    found = serving(watch, flapping)
    assert sum(found) == 15
    assert not any(found[25:])
    settled = serving(watch, [True] * 60, began=len(flapping))
    assert settled.index(True) == round(RULES.open_s)
    assert all(settled[round(RULES.open_s) :])


def test_what_was_long_ago_is_forgotten() -> None:
    watch = watched()
    serving(watch, [True, False] * 3)
    assert serving(watch, [True] * 90, began=6)[-1]
    assert serving(watch, [False, True], began=96) == [False, True]
