"""Conversations: what arrives, what of it can be found again, and where it is sent."""

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from scheduler.core.ticket import PREFIX_BLOCK, Ticket
from scheduler.simulation.fairlane import Fairlane
from scheduler.simulation.figures import figures
from scheduler.simulation.least_loaded import LeastLoaded
from scheduler.simulation.lp import throughput_bound
from scheduler.simulation.pinned import Pinned
from scheduler.simulation.prefix_affinity import MOST_MORE, PrefixAffinity
from scheduler.simulation.rates import planned
from scheduler.simulation.records import Records
from scheduler.simulation.runner import Task, run_one
from scheduler.simulation.scenario import SECOND, Scenario
from scheduler.simulation.scenario_file import load
from scheduler.simulation.scheduling import Cluster, Outcome
from scheduler.simulation.workload import COLUMNS, Workload
from scheduler.simulation.world import World

from .small import TALK, Document, Scripted, changed, scenario

CARDS = [{"name": f"card-{n}", "hardware": "card", "pool": "all"} for n in (1, 2, 3)]


def talks(workload: Workload) -> dict[int, list[int]]:
    """Turns by conversation, in order."""
    found: dict[int, list[int]] = defaultdict(list)
    for index, conversation in enumerate(workload.conversation):
        if conversation >= 0:
            found[conversation].append(index)
    return found


def common(workload: Workload, first: int, second: int) -> int:
    """Blocks that two requests' prompts begin with alike."""
    one, other = (workload.blocks(index, workload.prompt[index]) for index in (first, second))
    count = 0
    while one[count : count + 1] and one[count : count + 1] == other[count : count + 1]:
        count += 1
    return count


def test_a_prompt_is_all_that_was_said_before_and_a_new_question() -> None:
    workload = Workload(scenario(TALK))
    found = talks(workload)
    assert len(found) == workload.conversations == 6
    for turns in found.values():
        assert workload.prompt[turns[0]] > 200
        assert 0 <= workload.arrived[turns[0]] <= 20 * SECOND
        for before, after in pairwise(turns):
            said = workload.prompt[before] + workload.output[before]
            assert workload.prompt[after] > said
            # Nobody asks before the answer has been there.
            answered = workload.arrived[before] + workload.output[before] * SECOND // 50
            assert workload.arrived[after] > answered
    alone = [index for index, talk in enumerate(workload.conversation) if talk < 0]
    assert {workload.lane[index] for index in alone} == {2}


def test_without_spread_every_turn_comes_when_it_should() -> None:
    changes: Document = {
        "arrivals.0.conversations.begin_s": [3, 3],
        "arrivals.0.conversations.turns.cv": 0,
        "arrivals.0.conversations.think_s.cv": 0,
        "arrivals.0.conversations.user_tokens.cv": 0,
        "arrivals.0.output_tokens.cv": 0,
    }
    workload = Workload(scenario(TALK, changes))
    for turns in talks(workload).values():
        # 30 tokens of 20 ms, and 5 s.
        assert [workload.arrived[turn] / SECOND for turn in turns] == pytest.approx(
            [3, 8.6, 14.2, 19.8]
        )
        assert [workload.prompt[turn] for turn in turns] == [240, 310, 380, 450]


def test_a_shorter_run_has_the_same_turns() -> None:
    whole, part = Workload(scenario(TALK)), Workload(scenario(TALK).cut(25))
    count = len(part)
    assert 0 < count < len(whole)
    for column in COLUMNS:
        assert getattr(whole, column)[:count] == getattr(part, column)


def test_a_conversation_is_one_business_s() -> None:
    businesses = [{"name": "shop", "ceiling": "P0"}, {"name": "lab", "ceiling": "P0"}]
    shares = {"shop": 1, "lab": 3}
    many: Document = {"businesses": businesses, "arrivals.0.businesses": shares}
    workload = Workload(scenario(TALK, {**many, "arrivals.0.conversations.count": 400}))
    owners = {
        talk: {workload.business[t] for t in turns} for talk, turns in talks(workload).items()
    }
    assert all(len(names) == 1 for names in owners.values())
    assert sum(names == {1} for names in owners.values()) == pytest.approx(300, abs=40)


def test_blocks_say_what_prompts_have_in_common() -> None:
    other = {**TALK["arrivals"][0]}  # type: ignore[index]
    workload = Workload(scenario(TALK, {"arrivals": [*TALK["arrivals"], other]}))  # type: ignore[misc]
    by_stream = defaultdict(list)
    for turns in talks(workload).values():
        by_stream[workload.stream[turns[0]]].append(turns)
        for before, after in pairwise(turns):
            said = workload.prompt[before] + workload.output[before]
            assert len(workload.blocks(before, said)) == said // PREFIX_BLOCK
            assert workload.blocks(after, workload.prompt[after])[: said // PREFIX_BLOCK] == (
                workload.blocks(before, said)
            )
            assert common(workload, before, after) == workload.prompt[before] // PREFIX_BLOCK
    first, second = by_stream[0], by_stream[2]
    # 200 tokens of system prompt are three blocks and a part of one.
    assert common(workload, first[0][0], first[1][0]) == 3
    assert common(workload, first[0][0], second[0][0]) == 0
    alone = next(index for index, talk in enumerate(workload.conversation) if talk < 0)
    assert workload.blocks(alone, 10_000) == ()


@pytest.mark.parametrize(("begin", "end"), [(0, 420), (60, 120), (200, 260), (400, 420)])
def test_about_as_many_turns_are_planned_as_come(begin: float, end: float) -> None:
    found = load("multi-turn-chat")
    stream = found.arrivals[0]
    counts = []
    for seed in range(5):
        workload = Workload(found, seed)
        counts.append(
            sum(
                begin * SECOND <= workload.arrived[turn] < end * SECOND
                for turns in talks(workload).values()
                for turn in turns
            )
        )
    assert planned(stream, begin, end) == pytest.approx(sum(counts) / 5, rel=0.2)


def test_the_bound_counts_what_has_to_be_computed_at_least() -> None:
    """A question and its answer: the rest of a prompt may be found."""
    sizes = {"arrivals.0.conversations.user_tokens.lognormal_mean": 1000}
    found = scenario(TALK, {**sizes, "arrivals": [changed(TALK, sizes)["arrivals"][0]]})  # type: ignore[index]
    # Of one card's 1000 tokens prefilled a second.
    assert throughput_bound(found) == pytest.approx(1)


class Placed(Scripted):
    """Starts turns on given cards, and notes what they found there."""

    def __init__(self, cluster: Cluster, replicas: tuple[int, ...]) -> None:
        super().__init__(cluster, replicas)
        self.found: dict[int, int | None] = {}

    def finished(self, request: int, replica: int) -> None:
        self.found[request] = self.cluster.cached(request)


def placed(found: Scenario, *replicas: int) -> tuple[Workload, Records, Placed]:
    schedulers: list[Placed] = []

    def make(cluster: Cluster) -> Placed:
        schedulers.append(Placed(cluster, replicas))
        return schedulers[0]

    workload = Workload(found)
    return workload, World(workload, make).run(), schedulers[0]


ONE: Document = {
    "arrivals": [
        {
            **TALK["arrivals"][0],  # type: ignore[index]
            "conversations": {**TALK["arrivals"][0]["conversations"], "count": 1},  # type: ignore[index]
        }
    ],
    "cluster.replicas": CARDS,
    "cluster.hardware.card.kv_tokens": 100_000,
}


def test_a_turn_finds_what_was_said_on_the_same_card() -> None:
    workload, records, scheduler = placed(scenario(TALK, ONE), 0)
    turns = talks(workload)[0]
    assert len(turns) > 2
    assert records.cached[turns[0]] == 0
    for before, after in pairwise(turns):
        # The last token of an answer has not been computed, and blocks are whole.
        said = workload.prompt[before] + workload.output[before] - 1
        assert records.cached[after] == said // PREFIX_BLOCK * PREFIX_BLOCK
        assert scheduler.found[after] == records.cached[after]


def test_a_turn_elsewhere_finds_nothing() -> None:
    workload, records, _ = placed(scenario(TALK, ONE), 0, 1)
    first, second, third = talks(workload)[0][:3]
    assert records.cached[second] == 0
    # On the first card again it finds what the first turn left there.
    said = workload.prompt[first] + workload.output[first] - 1
    assert records.cached[third] == said // PREFIX_BLOCK * PREFIX_BLOCK


def test_a_card_that_was_lost_has_forgotten() -> None:
    found = scenario(TALK, ONE)
    workload = Workload(found)
    first, second = talks(workload)[0][:2]
    down = workload.arrived[second] / SECOND - 1
    fault = {"replica": "card-1", "down_at_s": down, "up_at_s": down + 0.5}
    workload, records, _ = placed(scenario(TALK, {**ONE, "faults": [fault]}), 0)
    assert records.outcome[first] == Outcome.DONE
    assert records.cached[second] == 0


def test_a_shorter_prefill_makes_an_earlier_answer() -> None:
    slow: Document = {**ONE, "cluster.hardware.card.prefill_tokens_per_s": 100}
    together, _ = (placed(scenario(TALK, slow), *where)[1] for where in ((0,), (0, 1)))
    apart = placed(scenario(TALK, slow), 0, 1)[1]
    workload = Workload(scenario(TALK, slow))
    second = talks(workload)[0][1]
    saved = together.cached[second] / 100 * SECOND
    # The rest of the turn is the same: nobody else is there.
    assert apart.ended[second] - together.ended[second] == pytest.approx(saved, abs=10)


def test_figures_are_tokens_found_over_tokens_that_came() -> None:
    workload, records, _ = placed(scenario(TALK, ONE), 0)
    run = figures(workload, records)
    assert run["cached_prompt_ratio"] == pytest.approx(sum(records.cached) / sum(workload.prompt))
    assert run["lanes"]["P1"]["cached_prompt_ratio"] == run["cached_prompt_ratio"]
    assert run["lanes"]["P0"]["cached_prompt_ratio"] is None


class Where(PrefixAffinity):
    """Notes where each request was started."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.started: dict[int, int] = {}

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        self.started[request] = replica
        super().start(request, replica)


class PinnedWhere(Pinned):
    """The same."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.started: dict[int, int] = {}

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        self.started[request] = replica
        super().start(request, replica)


def started(found: Scenario, kind: type[Where | PinnedWhere]) -> tuple[Workload, dict[int, int]]:
    schedulers: list[Where | PinnedWhere] = []

    def make(cluster: Cluster) -> Where | PinnedWhere:
        schedulers.append(kind(cluster))
        return schedulers[0]

    workload = Workload(found)
    World(workload, make).run()
    return workload, schedulers[0].started


@pytest.mark.parametrize("kind", [Where, PinnedWhere])
def test_conversations_stay_where_they_began(kind: type[Where | PinnedWhere]) -> None:
    found = scenario(TALK, {"cluster.replicas": CARDS, "cluster.hardware.card.kv_tokens": 50_000})
    workload, where = started(found, kind)
    homes = {talk: {where[turn] for turn in turns} for talk, turns in talks(workload).items()}
    assert all(len(cards) == 1 for cards in homes.values())
    if kind is PinnedWhere:
        # They began where there was least to do; the other went where the system prompt was.
        assert len(set.union(*homes.values())) == 3


def test_affinity_ends_where_it_would_cost_too_much() -> None:
    """All turns at once: the card that has the system prompt gets a few more than the others."""
    burst: Document = {
        "cluster.replicas": CARDS,
        "cluster.hardware.card": {
            **TALK["cluster"]["hardware"]["card"],  # type: ignore[index]
            "slots": 40,
            "kv_tokens": 500_000,
        },
        "arrivals.0.conversations": {
            **TALK["arrivals"][0]["conversations"],  # type: ignore[index]
            "count": 60,
            "begin_s": [1, 1],
            "turns": {"lognormal_mean": 1, "cv": 0},
        },
        "arrivals.1.rate_qps": [],
    }
    workload, where = started(scenario(TALK, burst), Where)
    counts = sorted(Counter(where.values()).values())
    assert len(workload) == sum(counts) == 60
    assert counts[-1] <= 1.5 * counts[0] + MOST_MORE + 1


def test_pinned_waits_for_its_card_while_another_is_idle() -> None:
    few: Document = {**ONE, "cluster.replicas": CARDS[:2], "cluster.hardware.card.slots": 1}
    second = talks(Workload(scenario(TALK, few)))[0][1]
    at = Workload(scenario(TALK, few)).arrived[second] / SECOND - 0.5

    def blocker(tokens: int) -> Document:
        return {
            "model": "chat",
            "businesses": {"shop": 1},
            "level": "uniform 0-0",
            "rate_qps": [],
            "burst": [{"at_s": at, "count": 1}],
            "prompt_tokens": {"lognormal_mean": 10, "cv": 0},
            "output_tokens": {"lognormal_mean": tokens, "cv": 0},
        }

    # In turn: the first turn took the first card, so a short one gets the other, a long one its.
    streams = [*ONE["arrivals"], blocker(10), blocker(100)]  # type: ignore[misc]
    busy = scenario(TALK, {**few, "arrivals": streams})
    for make, waits in ((LeastLoaded, False), (Pinned, True)):
        workload = Workload(busy)
        records = World(workload, make).run()
        turn = talks(workload)[0][1]
        assert (records.waited[turn] > SECOND // 2) == waits
        assert (records.cached[turn] > 0) == waits


def test_pinned_begins_anew_when_its_card_is_gone() -> None:
    found = scenario(TALK, ONE)
    first, second = talks(Workload(found))[0][:2]
    down = Workload(found).arrived[second] / SECOND - 2
    fault = {"replica": "card-1", "down_at_s": down}
    workload, where = started(scenario(TALK, {**ONE, "faults": [fault]}), PinnedWhere)
    assert where[first] == 0
    assert where[second] != 0
    assert {where[turn] for turn in talks(workload)[0][1:]} == {where[second]}


def test_the_core_is_told_of_conversations() -> None:
    tickets: dict[str, Ticket] = {}

    class Told(Fairlane):
        def arrived(self, request: int) -> None:
            super().arrived(request)
            tickets[str(request)] = self.state.requests[str(request)].ticket

    workload = Workload(scenario(TALK, {"cluster.replicas": CARDS}))
    World(workload, Told).run()
    for index in range(len(workload)):
        ticket, talk = tickets[str(index)], workload.conversation[index]
        assert ticket.session == ("" if talk < 0 else str(talk))
        assert len(ticket.blocks) == (0 if talk < 0 else ticket.prompt // PREFIX_BLOCK)


def test_what_placement_is_worth_in_the_built_in_scenario() -> None:
    found = load("multi-turn-chat").cut(150)
    shares = {}
    for name in ("least-loaded", "prefix-affinity", "pinned"):
        run = run_one(Task(found, found.seed, name)).figures
        assert run["cached_prompt_ratio"] is not None
        assert run["unfinished"] == 0
        shares[name] = run["cached_prompt_ratio"]
    assert shares["least-loaded"] < 0.8 * shares["prefix-affinity"]
    assert shares["prefix-affinity"] > 0.9 * shares["pinned"]
