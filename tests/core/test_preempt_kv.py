"""Preemption where not slots but the KV cache is short: the fewest victims that free enough."""

from scheduler.core.ticket import Resume

from .scene import MS, SECOND, Scene, card
from .test_preempt import low


def kv_scene(*tokens: int) -> Scene:
    scene = Scene(card("c", 8, kv=sum(tokens)))
    for number, total in enumerate(tokens):
        low(scene, f"low-{number}", prompt=total - 512, resume=Resume.CONTINUE)
        scene.wait(10 * MS)
    assert len(scene.on("c")) == len(tokens)
    return scene


def test_a_free_slot_without_kv_cache_is_no_slot() -> None:
    scene = kv_scene(1000, 1000)
    scene.arrive("urgent", 0, prompt=300, output=100)
    assert len(scene.stopped()) == 1
    scene.stop(scene.stopped()[0])
    assert "urgent" in scene.running


def test_the_fewest_are_stopped_that_free_enough() -> None:
    scene = kv_scene(600, 600, 3000, 600)
    scene.arrive("urgent", 0, prompt=2000, output=400)
    assert scene.stopped() == ["low-2"]
    scene.stop("low-2")
    assert "urgent" in scene.running


def test_as_many_as_it_takes_are_stopped() -> None:
    scene = kv_scene(1000, 1000, 1000, 1000)
    scene.arrive("urgent", 0, prompt=2000, output=500)
    assert len(scene.stopped()) == 3
    for name in scene.stopped():
        assert "urgent" not in scene.running
        scene.stop(name)
    assert "urgent" in scene.running


def test_nobody_is_stopped_when_all_of_them_are_too_few() -> None:
    scene = Scene(card("c", 8, kv=4000))
    scene.arrive("p1", 1, prompt=2000, output=500)
    low(scene, "low", prompt=500)
    scene.arrive("urgent", 0, prompt=2500, output=500)
    scene.wait(SECOND)
    assert not scene.stopped()
