"""A request that brings its own order and its own patience, beside others that do not."""

from dataclasses import replace

from scheduler.core.events import Arrived
from scheduler.core.policy import Order
from scheduler.core.ticket import Ticket

from .scene import MS, SECOND, Scene, card


def ticket(scene: Scene, name: str, *, level: int = 4, **own: object) -> Ticket:
    made = Ticket(name, "shop", "m", 1, level, scene.now)
    return replace(made, **own)  # type: ignore[arg-type]


def test_it_is_refused_after_its_own_time() -> None:
    scene = Scene(card("c"))
    scene.arrive("runs")
    scene.step(Arrived(ticket(scene, "short", patience=50 * MS)))
    scene.arrive("usual")
    scene.wait(60 * MS)
    assert scene.refused.keys() == {"short"}
    scene.finish("runs")
    assert scene.running.keys() == {"usual"}


def test_it_is_ordered_by_its_own_weights() -> None:
    scene = Scene(card("c"))
    scene.arrive("runs")
    scene.arrive("usual", level=4)
    flat = Order(level=0.0)
    scene.step(Arrived(ticket(scene, "own", level=6, order=flat)))
    scene.now += SECOND // 100
    scene.arrive("later", level=4)
    # By the policy's weights a level of 6 would stand behind both: two seconds a level.
    scene.finish("runs")
    assert scene.running.keys() == {"own"}
