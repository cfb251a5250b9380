"""A scene whose scheduler has measured already: service times and demand are told to it."""

from collections.abc import Mapping

from scheduler.core.demand import renew_layout
from scheduler.core.estimates import EXPLORED
from scheduler.core.layout import Demand

from .scene import MS, SECOND, SHARED, URGENT, Scene, card

# Mean service (ms) at any load, by kind of card and model.
SERVICE = {
    "a100": {"detector": 8, "speech": 40, "summary": 120},
    "orin": {"detector": 20, "speech": 150},
    "ascend": {"detector": 12, "speech": 80, "summary": 400},
}
SLOTS = {"a100": 16, "orin": 4, "ascend": 8}
CARDS = {"a100": 4, "orin": 6, "ascend": 4}
# Requests per second at the peak, by model; lanes share 3 : 4 : 3.
PEAK = {"detector": 4000, "speech": 750, "summary": 250}
LANES = (0.3, 0.4, 0.3)


def kind(replica: str) -> str:
    """The kind of card that a replica's name tells."""
    return replica.partition("-")[0]


def cluster(seed: int = 1) -> Scene:
    """Four A100 (the first for P0 alone), six Orin, four Ascend; nothing measured yet."""
    cards = []
    for name, count in CARDS.items():
        for number in range(1, count + 1):
            pool = URGENT if (name, number) == ("a100", 1) else SHARED
            cards.append(card(f"{name}-{number}", SLOTS[name], *SERVICE[name], pool=pool))
    return Scene(*cards, seed=seed)


def teach(
    scene: Scene,
    service: Mapping[tuple[str, str], float],
    demand: Mapping[tuple[str, int], float],
) -> None:
    """``service`` in ms by (model, replica), ``demand`` in requests/s by (model, lane)."""
    for _ in range(4 * EXPLORED):
        for (model, replica), ms in service.items():
            scene.state.estimates.served(model, replica, round(ms * MS), scene.now)
    scene.state.demand = {flow: Demand(rate / SECOND) for flow, rate in demand.items()}
    scene.state.laid_out = scene.now
    renew_layout(scene.state)


def known_cluster(load: float, seed: int = 1) -> Scene:
    """The cluster with all pairs measured, at a share of the peak's demand."""
    scene = cluster(seed)
    service = {
        (model, name): float(SERVICE[kind(name)][model])
        for name, replica in scene.state.replicas.items()
        for model in replica.facts.models
    }
    demand = {
        (model, lane): load * rate * share
        for model, rate in PEAK.items()
        for lane, share in enumerate(LANES)
    }
    teach(scene, service, demand)
    return scene


def placement_set(scene: Scene, model: str, lane: int) -> set[str]:
    """Names of the replicas in a flow's placement set."""
    tiers = scene.state.layout.sets.get((model, lane), ())
    return {replica.facts.name for tier in tiers for replica in tier}


def kinds(names: set[str]) -> set[str]:
    """The kinds among replicas."""
    return {kind(name) for name in names}
