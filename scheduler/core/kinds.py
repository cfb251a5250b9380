"""Kinds of card: which replicas count as equal, and whether kinds differ in what they are good
at."""

from collections.abc import Collection, Mapping
from math import log

from .estimates import Estimates
from .prices import Flow
from .replica import Replica

# Kinds differ where one does some work so much better than another, compared to other work;
# from then on until it is less than the second.
BETTER, AS_GOOD = 1.5, 1.25
# Cards that are so many times slower than their kind make a kind of their own.
CLASS = 1.5
# How far from the middle of its class a card may be until it changes to another.
STAY = 0.75
# And how much faster than its kind it is believed to be at most.
LEAST = 0.01


def name_kind(replica: Replica) -> str:
    """What the fleet says of such a card, but for its pool."""
    facts = replica.facts
    models = ",".join(sorted(facts.models))
    kind = f"{models}|{facts.slots}|{facts.gpus:g}|{facts.kv_tokens}|{facts.levels}"
    return kind if facts.hot else f"{kind}|cold path"


def name_group(replica: Replica, estimates: Estimates) -> str:
    """The replica's group: same kind of card, pool and path, and about the same speed."""
    _classify(replica, estimates)
    key = f"{replica.facts.pool}\n{replica.kind}\n{replica.speed_class}"
    if any(replica.rest):
        key += f"|{[sorted(models) for models in replica.rest]}"
    if replica.circuits and replica.left_alone:
        key += f"|without {sorted(replica.left_alone)}"
    return key if replica.warm else f"{key}|cold"


def kind_of(group: str) -> str:
    """A group's kind of card, whatever pool it is in and however fast it has shown to be."""
    return group.split("\n", 2)[1]


def _classify(replica: Replica, estimates: Estimates) -> None:
    """Bring the card's class of speed up to date, which it does not leave for little."""
    held = estimates.replicas.get(replica.facts.name)
    odd = [speed.ratio.value for speed in held.values() if speed.odd] if held else []
    if not odd:
        replica.speed_class = 0
        return
    place = log(max(sum(odd) / len(odd), LEAST)) / log(CLASS)
    if abs(place - replica.speed_class) > STAY:
        replica.speed_class = round(place)


def differ(
    part: Collection[str],
    options: Mapping[Flow, Mapping[str, float]],
    was: Collection[str] = (),
) -> bool:
    """Whether the groups of a part differ in what they can do, or in what they do better: only then
    is a slot of one worth more to some work than to other. ``options`` has the service by flow
    and group; groups in ``was`` did differ last time."""
    enough = AS_GOOD if any(name in was for name in part) else BETTER
    flows = [services for services in options.values() if any(name in services for name in part)]
    first, *others = part
    for other in others:
        ratios = []
        for services in flows:
            if (first in services) != (other in services):
                return True
            if first in services and services[other]:
                ratios.append(services[first] / services[other])
        if ratios and max(ratios) > enough * min(ratios):
            return True
    return False
