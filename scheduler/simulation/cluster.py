"""Cards that run requests: what they hold, how long they take, when they are gone."""

from collections.abc import Sequence

from scheduler.scaling.cards import CardState

from .decoding import Decoder
from .scenario import ReplicaSpec
from .workload import MILLISECOND, Workload


class Card:
    """One replica, or an idle card that may become one. ``service`` is the mean service time
    (ns) by model, 0 for generative ones, which ``decoder`` runs. ``area`` is busy slot time
    (slot-ns) up to ``touched``, ``measured`` what that was at the last measurement. It is ``up``
    while it answers, and another ``generation`` each time that it comes up; ``state`` is what
    scaling has made of it, ``broken`` what a fault has."""

    __slots__ = (
        "_weights",
        "area",
        "broken",
        "decoder",
        "generation",
        "measured",
        "models",
        "running",
        "service",
        "slots",
        "spec",
        "state",
        "touched",
        "up",
        "version",
    )

    def __init__(self, spec: ReplicaSpec, workload: Workload) -> None:
        self.spec = spec
        self.slots = spec.hardware.slots
        times = spec.hardware.service_ms
        self.service = [times.get(name, 0.0) * MILLISECOND for name in workload.models]
        self.running: set[int] = set()
        self.state = CardState.UP
        self.up = True
        self.broken = False
        self.generation = 1
        self.version = 0
        self.area = 0
        self.touched = 0
        self.measured = 0
        self.load(spec.models, workload)

    def load(self, models: Sequence[str], workload: Workload) -> None:
        """Hold these models from now on, and nothing of what was there before."""
        self.models = [workload.models.index(name) for name in models]
        generative = any(not self.service[model] for model in self.models)
        hardware = self.spec.hardware
        self.decoder = Decoder(hardware) if generative else None
        memory = sum(workload.scenario.models[name].memory_gb for name in models)
        self._weights = memory / hardware.memory_gb if hardware.memory_gb else 1.0

    def busy(self, now: int) -> int:
        """Busy slot time (slot-ns) from the beginning until now."""
        self.area += len(self.running) * (now - self.touched)
        self.touched = now
        return self.area

    def reading(self, now: int, passed: int) -> tuple[float, float]:
        """The share of busy slot time in the time passed since the last reading, and of
        memory in use: weights, or the KV cache where it is limited."""
        before, self.measured = self.measured, self.busy(now)
        memory = self._weights
        if self.decoder is not None and self.decoder.kv_share is not None:
            memory = self.decoder.kv_share
        return (self.measured - before) / (passed * self.slots), memory
