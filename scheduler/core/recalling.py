"""What is known of earlier requests when a process begins: estimates begin with it.

Nobody can say how busy the replicas were then. What waited in an engine's own queue for its prompt
to be computed tells little of how long that takes, so the quicker half of a model's prompts is
believed there; steps are taken to have been shared by as many as a half-full replica runs. All of
it counts as a few measurements, which the first ones of today outweigh.
"""

from collections.abc import Sequence
from statistics import median

from .events import Sample
from .replica import Replica
from .state import State

# What is recalled counts as so many measurements.
WEIGHT = 4.0


def recall(state: State, samples: Sequence[Sample]) -> None:
    """Learn from earlier requests, the oldest first, whatever nothing is known of by now: lengths
    of answers by model, and speeds on replicas that are still there."""
    estimates = state.estimates
    lengths = {model for business, model in estimates.output if not business}
    speeds = set(estimates.models)
    limits = _quick(samples)
    for sample in samples:
        generative = bool(sample.prompt or sample.output)
        if generative and sample.output and sample.model not in lengths:
            estimates.answered(sample.business, sample.model, sample.output)
        replica = state.replicas.get(sample.replica)
        if replica is None or sample.model in speeds or sample.held <= 0:
            continue
        if not generative:
            estimates.served(sample.model, sample.replica, sample.held, state.now)
            continue
        computed = sample.prompt - sample.cached
        if 0 < sample.first <= limits.get(sample.model, 0.0) * computed:
            estimates.prefilled(
                sample.model, sample.replica, float(computed), float(sample.first), state.now
            )
        if 0 < sample.first < sample.held and sample.output > 1:
            _decoded(state, sample, replica)
    _doubt(state, speeds)


def _quick(samples: Sequence[Sample]) -> dict[str, float]:
    """By model, ns until the first token per computed token of the prompt that half of the requests
    took longer than."""
    found: dict[str, list[float]] = {}
    for sample in samples:
        computed = sample.prompt - sample.cached
        if sample.first > 0 and computed > 0:
            found.setdefault(sample.model, []).append(sample.first / computed)
    return {model: median(each) for model, each in found.items()}


def _decoded(state: State, sample: Sample, replica: Replica) -> None:
    slots = replica.facts.slots
    step = (sample.held - sample.first) / (sample.output - 1)
    running = max(1.0, slots / 2)
    state.estimates.decoded(sample.model, sample.replica, slots, running, step, state.now)


def _doubt(state: State, known: set[str]) -> None:
    """Let what was recalled count little."""
    estimates = state.estimates
    for table in (estimates.models, *estimates.kinds.values(), *estimates.replicas.values()):
        for model, speed in table.items():
            if model not in known:
                speed.prefill.weight = min(speed.prefill.weight, WEIGHT)
                speed.step.weight = min(speed.step.weight, WEIGHT)
                if speed.service is not None:
                    speed.service.samples = min(speed.service.samples, WEIGHT)
