"""Idle cards: started, drained, lost, and what they cost."""

from scheduler.core.decisions import Scale
from scheduler.scaling.cards import CardState
from scheduler.simulation.records import Records
from scheduler.simulation.scenario import SECOND
from scheduler.simulation.scheduling import Cluster, Outcome
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import World

from .small import FIXED, Document, Scripted, bursts, changed, scenario

CHANGES: dict[str, object] = {
    "arrivals.0.rate_qps": [],
    "cluster.idle_cards": 2,
    "cluster.models.detector.load_s": 1,
    "cluster.models.speech.load_s": 2,
    "duration_s": 30,
}
# Places of the cards: big-1 and edge-1 as they stand there, then the idle ones.
BIG, EDGE, FIRST, SECOND_IDLE = range(4)


def order(*cards: str) -> Scale:
    """These cards of the pool are to be on, and no others; ``NAME:MODEL`` for a model."""
    named = [name.partition(":") for name in cards]
    return Scale("all", 2, len(cards), tuple((name, model) for name, _, model in named))


class Steered(Scripted):
    """Gives orders at given seconds, and notes each second how every card is."""

    def __init__(self, cluster: Cluster, orders: dict[int, Scale], replica: int) -> None:
        super().__init__(cluster, (replica,))
        self._orders = orders
        self.states: list[str] = []
        cluster.wake_at(0)

    def woken(self) -> None:
        """See Scheduler."""
        second = self.cluster.now // SECOND
        if second in self._orders:
            self.cluster.steer(self._orders[second])
        states = [
            self.cluster.state(place).value for place in range(len(self.cluster.idle_cards()) or 2)
        ]
        self.states.append(" ".join(states))
        # Between the whole seconds, when the world looks at its cards.
        self.cluster.wake_at((second + 1) * SECOND + 1)


def run(
    orders: dict[int, Scale],
    changes: dict[str, object] | None = None,
    *,
    base: Document = FIXED,
    replica: int = BIG,
) -> tuple[Steered, Records, World]:
    schedulers: list[Steered] = []

    def make(cluster: Cluster) -> Steered:
        schedulers.append(Steered(cluster, orders, replica))
        return schedulers[0]

    world = World(Workload(scenario(base, {**CHANGES, **(changes or {})})), make)
    return schedulers[0], world.run(), world


def test_idle_cards_are_of_the_elastic_replicas_kind() -> None:
    found = scenario(FIXED, CHANGES)
    cards = found.cards()
    assert [card.name for card in cards] == ["big-1", "edge-1", "idle-1", "idle-2"]
    assert {card.hardware.name for card in cards[2:]} == {"big"}
    assert scenario(FIXED).cards() == scenario(FIXED).replicas


def test_a_started_card_is_ready_when_it_has_loaded_its_models() -> None:
    scheduler, records, _ = run({2: order("big-1", "edge-1", "idle-1")})
    assert scheduler.states[2:6] == [
        "up up starting idle",
        "up up starting idle",
        "up up starting idle",
        "up up up idle",
    ]
    assert [told for told in scheduler.told if told[0] == "up"] == [("up", FIRST, 5 * SECOND + 1)]
    # Two slots more from then on; the card itself counts from its start.
    assert [records.ready[second] // SECOND for second in (4, 5, 6, 7)] == [12, 15, 20, 25]
    assert [records.cards[second] for second in (2, 3, 4, 30)] == [4, 7, 10, 88]
    assert (records.started, records.given_back) == (1, 0)


def test_no_more_than_there_are() -> None:
    scheduler, records, _ = run({2: order("big-1", "edge-1", "idle-1", "idle-2", "idle-3")})
    assert scheduler.states[-1] == "up up up up"
    assert records.started == 2


def test_what_is_given_back_first_ends_what_it_runs() -> None:
    # The edge card has nothing to do, and is the emptiest.
    orders: dict[int, Scale] = {3: order("big-1")}
    scheduler, records, _ = run(orders, {"arrivals.0.burst": bursts(2.95)})
    assert scheduler.states[2:5] == [
        "up up idle idle",
        "up draining idle idle",
        "up idle idle idle",
    ]
    assert records.given_back == 1

    slow: dict[str, object] = {
        "arrivals.0.burst": bursts(2.9),
        "cluster.hardware.big.service_ms.detector": 4500,
    }
    scheduler, records, _ = run({3: order()}, slow)
    # Both are to go; the one that works does so until it is done.
    assert scheduler.states[3:9] == [
        "draining draining idle idle",
        "draining idle idle idle",
        "draining idle idle idle",
        "draining idle idle idle",
        "draining idle idle idle",
        "idle idle idle idle",
    ]
    assert records.outcome[0] == Outcome.DONE


def test_a_draining_card_is_kept_before_an_idle_one_is_started() -> None:
    slow: dict[str, object] = {
        "arrivals.0.burst": bursts(2.9),
        "cluster.hardware.big.service_ms.detector": 9000,
    }
    orders: dict[int, Scale] = {3: order(), 5: order("big-1", "edge-1")}
    scheduler, records, _ = run(orders, slow)
    assert scheduler.states[5] == "up starting idle idle"
    assert scheduler.states[-1] == "up up idle idle"
    assert (records.started, records.given_back) == (1, 1)


def test_a_lost_card_comes_back_as_it_was_unless_another_has_taken_its_place() -> None:
    faults = {"faults": [{"replica": "big-1", "down_at_s": 4, "up_at_s": 12}]}
    scheduler, records, world = run({2: order("big-1", "edge-1")}, dict(faults))
    assert records.started == 0
    assert scheduler.states[-1] == "up up idle idle"
    assert world.generation(BIG) == 2
    # While a fault has it, it is nobody's.
    assert records.cards[12] - records.cards[5] == 7
    orders: dict[int, Scale] = {2: order("big-1", "edge-1"), 6: order("edge-1", "idle-1")}
    scheduler, records, _ = run(orders, dict(faults))
    assert records.started == 1
    assert scheduler.states[-1] == "idle up up idle"


def test_a_card_that_is_lost_while_it_loads_is_idle_until_it_can_be_started_again() -> None:
    fault = {"replica": "big-1", "down_at_s": 7, "up_at_s": 9}
    orders: dict[int, Scale] = {2: order("edge-1"), 6: order("big-1", "edge-1")}
    scheduler, _, _ = run(orders, {"faults": [fault]})
    assert scheduler.states[6:10] == [
        "starting up idle idle",
        "idle up idle idle",
        "idle up idle idle",
        "starting up idle idle",
    ]
    assert scheduler.states[-1] == "up up idle idle"


def test_nothing_scales_where_no_card_is_idle() -> None:
    _, records, world = run(
        {2: order("edge-1"), 4: order("big-1", "edge-1", "idle-1")}, {"cluster.idle_cards": 0}
    )
    assert (records.started, records.given_back) == (0, 0)
    assert all(world.state(place) is CardState.UP for place in (BIG, EDGE))


def test_a_card_for_a_model_that_nobody_holds() -> None:
    # Speech no longer fits beside the detector; a card for it holds it alone.
    small = changed(FIXED, {"cluster.hardware.big.memory_gb": 5})
    scheduler, _, world = run({2: order("big-1", "edge-1", "idle-1:speech")}, base=small)
    models = world.workload.models
    assert [models[model] for model in world.holds(BIG)] == ["detector"]
    assert scheduler.states[3] == "up up starting idle"
    assert scheduler.states[4] == "up up up idle"
    assert [models[model] for model in world.holds(FIRST)] == ["speech"]
    again, records, _ = run(
        {2: order("big-1", "edge-1", "idle-1:speech"), 9: order("big-1", "edge-1")}, base=small
    )
    assert again.states[-1] == "up up idle idle"
    assert records.given_back == 1
