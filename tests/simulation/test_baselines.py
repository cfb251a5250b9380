"""The ordering rules of the baselines, on cases small enough to follow."""

from collections.abc import Callable

from scheduler.simulation.class_floors import ClassFloors
from scheduler.simulation.fixed_priority import FixedPriority
from scheduler.simulation.least_loaded import LeastLoaded
from scheduler.simulation.records import Records
from scheduler.simulation.scenario import SECOND
from scheduler.simulation.scheduling import Cluster, Outcome, Scheduler
from scheduler.simulation.shared_queue import Fifo, PriorityHeap
from scheduler.simulation.workload import Workload
from scheduler.simulation.world import STOP_NS, World

from .small import FIXED, GENERATIVE, Document, bursts, changed, scenario

BIG_1 = {"name": "big-1", "hardware": "big", "pool": "all"}
BIG_2 = {"name": "big-2", "hardware": "big", "pool": "all"}
EDGE_1 = {"name": "edge-1", "hardware": "edge", "pool": "all"}

Make = Callable[[Cluster], Scheduler]


def request(at: float, level: int, model: str = "detector", count: int = 1) -> Document:
    """A stream of requests at one moment."""
    return {
        "model": model,
        "businesses": {"shop": 1},
        "level": f"uniform {level}-{level}",
        "rate_qps": [],
        "burst": [{"at_s": at, "count": count}],
    }


def run(make: Make, *requests: Document, **changes: object) -> tuple[Workload, Records]:
    workload = Workload(scenario(FIXED, {**changes, "arrivals": list(requests)}))
    return workload, World(workload, make).run()


def ends(records: Records) -> list[float]:
    return [round(at / SECOND, 6) for at in records.ended]


def test_fixed_priority_deals_in_turn_whatever_the_load() -> None:
    # Dealt to big, edge, big, edge: the last waits at the edge while big has slots to spare.
    _, records = run(FixedPriority, *(request(1 + i / 1000, 1) for i in range(4)))
    assert ends(records) == [1.1, 1.201, 1.102, 1.401]


def test_fixed_priority_takes_turns_by_model() -> None:
    speech = request(1.001, 1, "speech")
    _, records = run(FixedPriority, request(1, 1), speech, request(1.002, 1))
    # Speech has one card only and takes no turn of detection.
    assert ends(records) == [1.1, 1.301, 1.202]


def test_fixed_priority_serves_levels_then_arrival() -> None:
    one = {"cluster.replicas": [EDGE_1]}
    levels = (5, 5, 9, 3, 5)
    found = [request(1 + place / 1000, level) for place, level in enumerate(levels)]
    _, records = run(FixedPriority, *found, **one)
    assert ends(records) == [1.2, 1.6, 2.0, 1.4, 1.8]


def test_fixed_priority_deals_to_a_replica_that_is_gone() -> None:
    fault = {"replica": "edge-1", "down_at_s": 0.5, "up_at_s": 3}
    found = [request(1, 5), request(1.001, 5), request(1.002, 0), request(1.003, 0)]
    _, records = run(FixedPriority, *found, faults=[fault])
    # P0 has waited its second when the replica is back; P1 goes on once a probe sees it.
    assert list(records.outcome) == [Outcome.DONE, Outcome.DONE, Outcome.DONE, Outcome.TIMEOUT]
    assert ends(records)[:3] == [1.1, 4.2, 1.102]


def test_timeouts_are_those_of_the_lane() -> None:
    one = {"cluster.replicas": [EDGE_1], "duration_s": 20}
    _, records = run(Fifo, request(1, 5, count=6), request(1, 0, count=2), **one)
    assert list(records.outcome) == [Outcome.DONE] * 6 + [Outcome.TIMEOUT] * 2


def test_fifo_ignores_levels_and_takes_any_free_replica() -> None:
    levels = (9, 9, 9, 9, 0)
    found = [request(1 + place / 1000, level) for place, level in enumerate(levels)]
    _, records = run(Fifo, *found)
    # Slots are taken in turn: big, edge, big; then big's slots as they come free.
    assert ends(records) == [1.1, 1.201, 1.102, 1.2, 1.202]


def test_priority_heap_serves_levels_first() -> None:
    levels = (9, 9, 9, 9, 0)
    found = [request(1 + place / 1000, level) for place, level in enumerate(levels)]
    _, records = run(PriorityHeap, *found)
    assert ends(records) == [1.1, 1.201, 1.102, 1.202, 1.2]


def test_a_request_that_fits_nowhere_holds_up_no_other_model() -> None:
    speech = [request(1 + place / 1000, 0, "speech") for place in range(3)]
    _, records = run(PriorityHeap, *speech, request(1.01, 9))
    assert ends(records) == [1.3, 1.301, 1.6, 1.21]


def test_floors_keep_slots_free_for_their_classes() -> None:
    slots = {"cluster.hardware.big.slots": 20, "cluster.replicas": [BIG_1]}
    _, records = run(ClassFloors, request(1, 9, count=30), request(1.01, 1), **slots)
    # P2 gets 20 slots less the floors of P0 (4) and P1 (2); P0 finds its own at once.
    begun = sorted(ends(records)[:30])
    assert begun.count(1.1) == 14
    assert ends(records)[30] == 1.11


def test_floors_promote_p2_that_has_starved() -> None:
    changes = {"cluster.replicas": [EDGE_1], "starved_after_s": {"P2": 0.5}}
    found = [request(1, 9, count=2), *(request(1.01 + place / 10, 4) for place in range(8))]
    _, records = run(ClassFloors, *found, **changes)
    # It waits for 0.5 s behind P1, then goes before the P1 that came after it.
    assert ends(records)[:2] == [1.2, 1.8]


def test_floors_stop_p2_that_nobody_has_seen() -> None:
    one = {"cluster.replicas": [EDGE_1]}
    _, records = run(ClassFloors, request(1, 9), request(1.05, 0), **one)
    begun = 1.05 + STOP_NS / SECOND
    assert ends(records) == [round(begun + 0.4, 6), round(begun + 0.2, 6)]
    assert len(records.preempted) == 1


def test_floors_leave_p2_whose_caller_has_seen_something() -> None:
    first = {**request(1, 9, "chat"), "prompt_tokens": {"lognormal_mean": 100, "cv": 0}}
    first["output_tokens"] = {"lognormal_mean": 50, "cv": 0}
    urgent = {**first, **request(1.5, 0, "chat")}
    found = changed(GENERATIVE, {"arrivals": [first, urgent], "cluster.hardware.card.slots": 1})
    workload = Workload(scenario(found))
    records = World(workload, ClassFloors).run()
    assert not records.preempted
    assert records.ended[0] < records.ended[1]


def test_baselines_start_nothing_on_a_replica_that_is_gone() -> None:
    fault = {"replica": "edge-1", "down_at_s": 0.5, "up_at_s": 1.5}
    for make in (Fifo, PriorityHeap, ClassFloors, LeastLoaded):
        _, records = run(make, request(1, 5, count=9), faults=[fault])
        assert list(records.outcome) == [Outcome.DONE] * 9


def test_all_baselines_end_every_request_once() -> None:
    changes = {"duration_s": 60, "arrivals.0.rate_qps": [[0, 5], [30, 60], [60, 5]]}
    workload = Workload(scenario(FIXED, {**changes, "cluster.replicas": [BIG_1, BIG_2, EDGE_1]}))
    for make in (FixedPriority, Fifo, PriorityHeap, ClassFloors, LeastLoaded):
        records = World(workload, make).run()
        assert Outcome.UNFINISHED not in records.outcome
        assert all(end >= at for at, end in zip(workload.arrived, records.ended, strict=True))


def test_a_refusal_counts_from_the_time_it_was_due() -> None:
    one = {"cluster.replicas": [EDGE_1], "duration_s": 20}
    _, records = run(Fifo, request(1, 5, count=8), request(1, 0), **one)
    assert ends(records)[-1] == 2.0
    assert records.waited[len(records.waited) - 1] == SECOND


CARD_1 = {"name": "card-1", "hardware": "card", "pool": "all"}
CARD_2 = {"name": "card-2", "hardware": "card", "pool": "all"}


def words(level: int, prompt: int, output: int, *moments: float, most: int = 1000) -> Document:
    """A stream of chat requests that are all alike."""
    return {
        "model": "chat",
        "businesses": {"shop": 1},
        "level": f"uniform {level}-{level}",
        "rate_qps": [],
        "burst": bursts(*moments),
        "prompt_tokens": {"lognormal_mean": prompt, "cv": 0},
        "output_tokens": {"lognormal_mean": output, "cv": 0},
        "max_tokens": most,
    }


class Watched(LeastLoaded):
    """Notes where each request was started."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.started: dict[int, int] = {}

    def start(self, request: int, replica: int) -> None:
        """See SharedQueue."""
        self.started[request] = replica
        super().start(request, replica)


def placed(*requests: Document, **changes: object) -> tuple[list[int], list[float]]:
    """Where the requests of two cards were started under least-loaded, and when they ended."""
    found = {"cluster.replicas": [CARD_1, CARD_2], "arrivals": list(requests), **changes}
    schedulers: list[Watched] = []

    def make(cluster: Cluster) -> Watched:
        schedulers.append(Watched(cluster))
        return schedulers[0]

    records = World(Workload(scenario(GENERATIVE, found)), make).run()
    return [schedulers[0].started[request] for request in range(len(records.ended))], ends(records)


def test_least_loaded_takes_turns_among_equals() -> None:
    where, _ = placed(words(1, 100, 10, 1, 2, 3, 4))
    assert where == [0, 1, 0, 1]


def test_least_loaded_counts_tokens_not_requests() -> None:
    # One long prompt on the first card; then short ones, three of which weigh less than it.
    where, _ = placed(words(1, 900, 10, 1), words(1, 100, 10, 1.01, 1.02, 1.03))
    assert where == [0, 1, 1, 1]


def test_least_loaded_forgets_a_prompt_once_its_answer_has_begun() -> None:
    # What is left of the first is its answer alone, which is not more than the other's.
    early, _ = placed(words(1, 500, 50, 1), words(1, 300, 50, 1.2, 1.3))
    assert early == [0, 1, 1]
    late, _ = placed(words(1, 500, 50, 1), words(1, 300, 50, 1.2, 1.55))
    assert late == [0, 1, 0]


def test_least_loaded_expects_answers_as_long_as_earlier_ones() -> None:
    def three(at: float) -> tuple[Document, Document, Document]:
        """An answer of unknown length, a prompt whose answer is short, and one more."""
        short = words(1, 190, 40, at + 0.1, most=40)
        return words(1, 1, 200, at), short, words(1, 1, 1, at + 0.15)

    # Of the first a router expects 256 tokens, of the second 190 + 40.
    where, _ = placed(*three(1))
    assert where == [0, 1, 1]
    # Where an answer of 200 has been seen, the first is less than the second.
    where, _ = placed(words(1, 1, 200, 0), *three(10))
    assert where == [0, 1, 0, 1]


def test_least_loaded_queues_by_level_and_gives_the_freed_slot_to_the_head() -> None:
    one = {"cluster.hardware.card.slots": 1}
    levels = (9, 9, 9, 5, 0)
    found = [words(level, 100, 10, 1 + place / 1000) for place, level in enumerate(levels)]
    _, at = placed(*found, **one)
    assert sorted(at) == [at[0], at[1], at[4], at[3], at[2]]


def test_least_loaded_weighs_fixed_work_by_what_it_usually_takes() -> None:
    # Speech takes three times as long as detection here, once that has been seen.
    both = [request(0, 1, "speech"), request(0.5, 1)]
    later = [request(2, 1), request(2.01, 1), request(2.02, 1, "speech"), request(2.03, 1)]
    found = {"cluster.hardware.big.slots": 4, "cluster.replicas": [BIG_1, BIG_2]}
    schedulers: list[Watched] = []

    def make(cluster: Cluster) -> Watched:
        schedulers.append(Watched(cluster))
        return schedulers[0]

    run(make, *both, *later, request(2.04, 1), **found)
    where = [schedulers[0].started[index] for index in range(7)]
    # Detection in turn; speech beside one of them; then detection beside the other, twice.
    assert where[2] != where[3]
    assert where[5] == where[6] != where[4]


def test_one_that_is_small_enough_for_what_is_free_does_not_wait_for_the_next_end() -> None:
    """The head is too big for the room there is; an urgent one that comes then is not."""
    big, small = words(8, 1500, 100, 1, 1.01), words(1, 100, 10, 1.02)
    for make in (PriorityHeap, LeastLoaded):
        records = World(Workload(scenario(GENERATIVE, {"arrivals": [big, small]})), make).run()
        assert records.waited[2] == 0
        assert records.waited[1] > SECOND
