"""P0 waits for a replica to be warm; other lanes do not, and nobody is told that there is none."""

from dataclasses import replace

from scheduler.core import events
from scheduler.core.decisions import Reason

from .scene import MS, URGENT, Scene, card


def told(scene: Scene, name: str, *, warm: bool, ready: bool = True) -> None:
    change = scene._cards[name]
    scene._tell(replace(change, warm=warm, ready=ready))


def cold(*cards: str, slots: int = 1) -> Scene:
    scene = Scene(*(card(name, slots) for name in cards))
    for name in cards:
        told(scene, name, warm=False)
    return scene


def test_p0_waits_for_a_cold_replica_and_the_others_do_not() -> None:
    scene = cold("c", slots=2)
    scene.arrive("urgent", 0)
    scene.arrive("usual", 1)
    scene.arrive("low", 2)
    assert scene.waiting() == ["urgent"]
    assert sorted(scene.on("c")) == ["low", "usual"]
    scene.finish("low")
    assert scene.waiting() == ["urgent"]
    told(scene, "c", warm=True)
    assert sorted(scene.on("c")) == ["urgent", "usual"]


def test_p0_goes_where_it_is_warm() -> None:
    scene = cold("a", "b", slots=4)
    told(scene, "b", warm=True)
    for number in range(4):
        scene.arrive(f"urgent-{number}", 0)
    assert len(scene.on("b")) == 4
    scene.arrive("more", 0)
    assert scene.waiting() == ["more"]
    scene.arrive("usual", 1)
    assert scene.on("a") == ["usual"]


def test_a_dedicated_replica_that_is_cold_takes_nothing() -> None:
    scene = Scene(card("p0", pool=URGENT), card("c"))
    told(scene, "p0", warm=False)
    scene.arrive("one", 0)
    assert scene.where("one") == "c"
    scene.arrive("two", 0)
    assert scene.waiting() == ["two"]
    told(scene, "p0", warm=True)
    assert scene.where("two") == "p0"


def test_a_cold_replica_that_goes_down_is_no_hope() -> None:
    scene = cold("c")
    scene.arrive("first", 0)
    assert scene.waiting() == ["first"]
    told(scene, "c", warm=False, ready=False)
    scene.arrive("second", 0)
    assert scene.refused["second"].reason is Reason.NO_CAPACITY


def test_no_low_work_is_stopped_for_p0_that_could_not_start_there() -> None:
    scene = cold("c")
    scene.arrive("low", 2, prompt=100, output=3000)
    scene.wait(100 * MS)
    scene.arrive("urgent", 0)
    scene.wait(1000 * MS)
    assert not scene.stopped()


def test_a_change_that_says_nothing_of_it_is_warm() -> None:
    """The simulator and drivers without warm-up need not know of it."""
    facts, pool = card("c")
    assert events.ReplicaChanged(facts, pool, True, 1).warm
