"""What the core foretells of a request, before it runs."""

import pytest

from scheduler.core.ticket import Ticket

from .clockwork import Clockwork
from .scene import MS, SECOND, Scene, card

# Tokens of ten answers: most are short, and two are not.
LENGTHS = (40, 50, 45, 55, 50, 60, 48, 52, 400, 500)
TOKEN = 20 * MS


def talk(scene: Scene, lengths: tuple[int, ...], business: str = "shop") -> None:
    """Answers of so many tokens, one after another."""
    for number, length in enumerate(lengths):
        name = f"{business}-{number}-{scene.now}"
        scene.arrive(name, business=business, prompt=100, output=1000)
        scene.now += (length + 1) * TOKEN
        scene.finish(name, output=length)


def foreseen(scene: Scene, business: str = "shop", output: int = 1000) -> int:
    scene.arrive("next", business=business, prompt=100, output=output)
    ticket = scene.state.requests["next"].ticket
    scene.cancel("next")
    return scene.state.estimates.foreseen(ticket, "c")


def test_one_request_is_foretold_the_middle_and_many_the_mean() -> None:
    scene = Scene(card("c", 1))
    for _ in range(6):
        talk(scene, LENGTHS)
    answer = foreseen(scene) / TOKEN
    assert answer == pytest.approx(70, abs=25)
    scene.arrive("next", prompt=100, output=1000)
    mean = scene.state.estimates.tokens(scene.state.requests["next"].ticket)
    assert mean == pytest.approx(130, abs=45)
    assert answer < 0.75 * mean


def test_nobody_is_foretold_more_than_he_asks_for() -> None:
    scene = Scene(card("c", 1))
    talk(scene, (200,) * 8)
    assert foreseen(scene, output=50) == pytest.approx(51 * TOKEN, rel=0.05)


def test_other_businesses_have_answers_of_their_own() -> None:
    scene = Scene(card("c", 1))
    talk(scene, (20,) * 40, "short")
    talk(scene, (400,) * 40, "long")
    talk(scene, (20,) * 40, "short")
    assert foreseen(scene, "short") == pytest.approx(21 * TOKEN, rel=0.1)
    assert foreseen(scene, "long") == pytest.approx(401 * TOKEN, rel=0.1)


def test_work_without_tokens_takes_what_it_took_there() -> None:
    scene = Scene(card("c", 1))
    for number in range(10):
        scene.arrive(f"r{number}")
        scene.now += 300 * MS
        scene.finish(f"r{number}")
    scene.arrive("next")
    ticket = scene.state.requests["next"].ticket
    assert scene.state.estimates.foreseen(ticket, "c") == pytest.approx(300 * MS, rel=0.01)
    # Where it was never measured, what it took elsewhere.
    assert scene.state.estimates.foreseen(ticket, "new") == pytest.approx(300 * MS, rel=0.01)


def test_who_waits_is_foretold_the_wait_as_well() -> None:
    scene = Scene(card("c", 2))
    for number in range(40):
        scene.arrive(f"known-{number}")
        scene.now += SECOND
        scene.finish(f"known-{number}")
    scene.arrive("a")
    scene.arrive("b")
    for number in range(4):
        scene.arrive(f"w{number}", budget=60 * SECOND)
    # Two slots end a second: the third that waits has a second and a half before it at most.
    assert scene.state.requests["w2"].least == pytest.approx(SECOND, rel=0.6)
    assert scene.state.requests["a"].least == 0


@pytest.mark.parametrize("factor", [10, 1_000, 100_000])
@pytest.mark.parametrize(("slots", "service"), [(8, SECOND), (16, SECOND), (40, 5 * SECOND)])
def test_a_mean_set_far_too_high_is_right_again_within_a_minute(
    factor: int, slots: int, service: int
) -> None:
    """Ten requests a second, more than the slots can take or fewer: whoever is refused meanwhile
    is so for a wrong reason, and there are few of them."""
    scene = Scene(card("a", slots // 2), card("b", slots // 2))
    clock = Clockwork(scene, lambda _ticket, _replica: service)

    def feed(seconds: int) -> None:
        tickets = [
            Ticket(f"at-{at}", "shop", "m", 0, 1, at, budget=2 * service)
            for at in range(scene.now, scene.now + seconds * SECOND, SECOND // 10)
        ]
        clock.run(tickets, scene.now + seconds * SECOND)

    feed(30)
    estimates = scene.state.estimates
    for speeds in (estimates.models, *estimates.kinds.values(), *estimates.replicas.values()):
        mean = speeds["m"].service
        assert mean is not None
        mean.value *= factor
    estimates.times["m"].middle *= factor
    feed(60)
    mean = estimates.models["m"].service
    assert mean is not None
    assert mean.value == pytest.approx(service, rel=0.3)
    ended = len(scene.done)
    feed(10)
    # What the slots can take in that time, but for a few at its edges.
    assert len(scene.done) - ended >= 0.8 * min(100, slots * 10 * SECOND // service)
