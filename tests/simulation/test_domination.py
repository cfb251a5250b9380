"""When a plain scheduler counts as better."""

import pytest

from scheduler.simulation.domination import Standing, better_in, domination
from scheduler.simulation.figures import RunFigures
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.trial import poorer

from .small import FIXED, scenario

OURS = Standing(0.90, 0.90, 0.90, 1000.0)


@pytest.mark.parametrize(
    ("plain", "where"),
    [
        (OURS, []),
        # Clearly better in one, no worse elsewhere.
        (Standing(0.92, 0.90, 0.90, 1000.0), ["P0 in budget"]),
        (Standing(0.90, 0.93, 0.90, 1000.0), ["P1 success"]),
        (Standing(0.90, 0.90, 0.93, 1000.0), ["P2 success"]),
        (Standing(0.90, 0.90, 0.90, 900.0), ["P0 P95"]),
        (Standing(0.92, 0.93, 0.93, 500.0), ["P0 in budget", "P1 success", "P2 success", "P0 P95"]),
        # Better, but not clearly.
        (Standing(0.909, 0.919, 0.919, 920.0), []),
        # A little worse elsewhere is not worse; more is.
        (Standing(0.92, 0.896, 0.896, 1029.0), ["P0 in budget"]),
        (Standing(0.92, 0.894, 0.90, 1000.0), []),
        (Standing(0.92, 0.90, 0.894, 1000.0), []),
        (Standing(0.92, 0.90, 0.90, 1031.0), []),
        (Standing(0.894, 0.95, 0.95, 500.0), []),
        # Where nothing came there is nothing to compare.
        (Standing(None, 0.93, None, None), ["P1 success"]),
        (Standing(0.92, None, None, None), ["P0 in budget"]),
    ],
)
def test_nowhere_worse_and_somewhere_clearly_better(plain: Standing, where: list[str]) -> None:
    assert [
        text.rpartition(" against ")[0].rpartition(" ")[0] for text in better_in(plain, OURS)
    ] == where


def figures(success: tuple[float, float, float]) -> RunFigures:
    found = scenario(FIXED)
    run = run_one(Task(found, found.seed, "fifo")).figures
    for lane, share in zip(("P0", "P1", "P2"), success, strict=True):
        run["lanes"][lane]["success_ratio"] = share
        run["lanes"][lane]["budget_met_ratio"] = share
    return run


def test_the_one_that_is_better_in_most_is_named() -> None:
    ours = figures((0.9, 0.9, 0.9))
    plain = {
        "a": figures((0.9, 0.9, 0.95)),
        "b": figures((0.95, 0.9, 0.95)),
        "c": figures((1.0, 1.0, 0.8)),
    }
    found = domination(ours, plain)
    assert found is not None
    assert str(found) == (
        "dominated by b: P0 in budget 90.0% against 95.0%; P2 success 90.0% against 95.0%"
    )
    assert domination(ours, {"c": plain["c"]}) is None
    assert domination(ours, {}) is None


def test_p2_is_poorer_where_nothing_was_bought_for_it() -> None:
    heap = figures((0.9, 0.9, 0.9))
    assert poorer(figures((0.9, 0.9, 0.8)), heap) == (0.8, 0.9)
    assert poorer(figures((0.8, 0.8, 0.8)), heap) == (0.8, 0.9)
    assert poorer(figures((0.91, 0.9, 0.8)), heap) is None
    assert poorer(figures((0.8, 0.91, 0.8)), heap) is None
    assert poorer(figures((0.8, 0.8, 0.9)), heap) is None
