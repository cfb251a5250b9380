"""A few calls of the live sections against Fairlane and emulated cards, all of it real."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from bench import chat, full_cards, placement
from bench.conversations import Talk, conversations, converse
from bench.installation import furnished
from bench.machine import Cores, cores
from bench.replay import Made, plan, replay
from bench.site import Cards, Loads, cards_of, fleet, senders
from bench.ways import Effort, Way, one_round
from scheduler.simulation.scenario import Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import Workload

TALK = Talk(6, 3, 0.5, system=200, question=60, answer=20, pause_s=0.3, begin_s=0.5)


@dataclass(frozen=True, slots=True)
class Site:
    """Three cards of eight slots and Fairlane before them."""

    scenario: Scenario
    cards: Cards
    way: Way

    @property
    def businesses(self) -> list[str]:
        """Those that have calls to make."""
        return senders(self.scenario)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    scenario = load(str(full_cards.SITE)).cut(2)
    places: Cores = cores()
    allowed = os.sched_getaffinity(0)
    with (
        tempfile.TemporaryDirectory(prefix="bench-") as name,
        cards_of(scenario, Path(name), places) as cards,
        furnished(fleet(scenario, cards.urls), senders(scenario), places) as installation,
    ):
        installation.activate(scenario.policy)
        way = Way("fairlane", partial(installation.serving, "gateway"), installation.keys)
        yield Site(scenario, cards, way)
    os.sched_setaffinity(0, allowed)


@dataclass(frozen=True, slots=True)
class Played:
    """A round of some urgent and usual calls and four evaluations."""

    made: list[Made]
    loads: Loads
    effort: Effort


@pytest.fixture(scope="module")
def played(site: Site) -> Played:
    planned = plan(Workload(site.scenario))
    evaluations = [call for call in planned if call.lane == 2][:4]
    planned = [call for call in planned if call.lane < 2 or call in evaluations]
    return Played(
        *one_round(
            site.way,
            site.cards,
            "chat",
            site.businesses,
            lambda url, keys: replay(url, planned, keys),
        )
    )


def test_calls_run_in_their_lanes_and_are_heard_to_their_end(played: Played) -> None:
    for each in played.made:
        assert each.heard.reason == ""
        assert each.heard.lane == f"P{each.planned.lane}"
        assert each.heard.first_s is not None
        assert 0 < each.heard.first_s <= each.heard.took_s
    assert {each.planned.lane for each in played.made} == {0, 1, 2}
    assert sum(played.loads.requests.values()) == len(played.made)
    tokens = sum(each.heard.usage.completion_tokens for each in played.made)
    assert played.loads.generated == tokens


def test_an_evaluation_is_whole_or_broken(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    made = played.made
    found = full_cards.round_of(made, played.loads, played.effort, 1e9)
    assert (found.calls, found.completed, found.in_time, found.broken) == (len(made),) * 3 + (0,)
    results = {full_cards.OURS: [found], full_cards.THEIRS: [found]}
    figures = full_cards.figures_of(results)
    assert figures["incident_completed"] == figures["incident_in_time"] == 1.0
    full_cards.show(results, figures)
    assert "completed 1.000" in capsys.readouterr().out
    (*_, last) = made
    text, last.heard.text = last.heard.text, last.heard.text + " word"
    assert not full_cards.as_it_should(last)
    last.heard.text = text
    assert full_cards.as_it_should(last)


def test_equal_cards_are_told_apart_by_their_calls(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    found = placement.round_of(played.made, played.loads, played.effort)
    assert found.answered == len(played.made)
    urgent = [each.heard.first_s or 0.0 for each in played.made if each.planned.lane == 0]
    assert found.first_ms["p0_p95"] == 1e3 * max(urgent)
    counts = list(played.loads.requests.values())
    furthest = max(abs(count * 3 / sum(counts) - 1) for count in counts)
    assert played.loads.spread == pytest.approx(furthest)
    results = {placement.OURS: [found], "least_conn": [found], "round robin": [found]}
    ratios = placement.ratios_of(results)
    assert set(ratios.values()) == {1.0}
    placement.show(results, ratios)
    assert "P0 P95 1.00 (wanted: 1.0 or less)" in capsys.readouterr().out


def test_cached_tokens_are_what_the_cards_say_they_are(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    businesses = site.businesses
    planned = conversations(TALK, businesses, 1)
    held, loads, effort = one_round(
        site.way,
        site.cards,
        "chat",
        businesses,
        lambda url, keys: converse(url, "chat", TALK, planned, keys),
    )
    found = chat.round_of(held, TALK, loads, effort)
    assert found.answered == TALK.conversations * TALK.turns
    assert not found.failed
    assert 0 < found.cached == loads.cached <= found.cacheable < found.prompts
    results = {chat.OURS: [found], chat.THEIRS: [found]}
    chat.show(results, dict.fromkeys(("chat_cached", "chat_p0_p50", "chat_p0_p95"), 1.0), TALK)
    assert "cached tokens 1.000" in capsys.readouterr().out
