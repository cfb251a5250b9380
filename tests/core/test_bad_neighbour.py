"""What a business whose requests all fail costs the others, in time on a virtual clock."""

from heapq import heappop, heappush
from random import Random

from scheduler.core.decisions import Kind, Notice
from scheduler.core.events import Finished

from .scene import MS, SECOND, Scene, card

SERVICE = 100 * MS
MINUTES = 4


def neighbours_p99(*, bad: bool) -> tuple[int, list[Notice]]:
    """P99 (ns) from arrival to answer of a business that takes 60 % of two cards for four
    minutes, with or without another that sends forty requests a second, which all fail in the
    replica's hands after a while; and what was noticed."""
    scene = Scene(card("a", 4), card("b", 4))
    draw, due = Random(7), list[tuple[int, str]]()
    at, number = scene.now, 0
    end = scene.now + MINUTES * 60 * SECOND
    arrivals = list[tuple[int, str]]()
    while at < end:
        at += round(draw.expovariate(48) * SECOND)
        arrivals.append((at, "good"))
    if bad:
        arrivals += [(scene.now + n * SECOND // 40, "bad") for n in range(MINUTES * 2400)]
    arrivals.sort()
    came: dict[str, int] = {}
    took: list[int] = []
    service = Random(8)

    def note_started() -> None:
        for name in scene.started[len(noted) :]:
            noted.append(name)
            span = SERVICE if name.startswith("bad") else round(service.gammavariate(4, 25) * MS)
            heappush(due, (scene.now + span, name))

    noted: list[str] = []
    while arrivals or due:
        if due and (not arrivals or due[0][0] <= arrivals[0][0]):
            moment, name = heappop(due)
            scene.wait(moment - scene.now)
            attempt = scene.running.pop(name).attempt
            scene.step(Finished(name, attempt, failed=name.startswith("bad")))
            if name in came:
                took.append(scene.now - came[name])
        else:
            moment, business = arrivals.pop(0)
            scene.wait(moment - scene.now)
            number += 1
            name = f"{business}-{number}"
            if business == "good":
                came[name] = scene.now
            scene.arrive(name, business=business)
        note_started()
    assert len(took) == len(came), "each of the neighbours' requests is answered"
    took.sort()
    found = [item for item in scene.log if isinstance(item, Notice)]
    return took[len(took) * 99 // 100], found


def test_the_neighbours_of_a_failing_business_hardly_notice() -> None:
    alone, quiet = neighbours_p99(bad=False)
    beside, noticed = neighbours_p99(bad=True)
    assert not quiet
    assert {(item.kind, item.name) for item in noticed} == {(Kind.SUSPENDED, "bad")}
    assert len(noticed) >= 2, "suspended again after each trickle"
    assert beside <= 1.1 * alone
