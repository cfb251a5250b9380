"""Cards that run requests: what they hold, how long they take, when they are gone."""

from .decoding import Decoder
from .scenario import ReplicaSpec
from .workload import MILLISECOND, Workload


class Card:
    """One replica. ``service`` is the mean service time (ns) by model, 0 for generative
    ones, which ``decoder`` runs. ``area`` is busy slot time (slot-ns) up to ``touched``,
    ``measured`` what that was at the last measurement."""

    __slots__ = (
        "_weights",
        "area",
        "decoder",
        "measured",
        "models",
        "running",
        "service",
        "slots",
        "spec",
        "touched",
        "up",
        "version",
    )

    def __init__(self, spec: ReplicaSpec, workload: Workload) -> None:
        self.spec = spec
        self.slots = spec.hardware.slots
        self.models = [workload.models.index(name) for name in spec.models]
        times = spec.hardware.service_ms
        self.service = [times.get(name, 0.0) * MILLISECOND for name in workload.models]
        generative = any(not self.service[model] for model in self.models)
        self.decoder = Decoder(spec.hardware) if generative else None
        self.running: set[int] = set()
        self.up = True
        self.version = 0
        self.area = 0
        self.touched = 0
        self.measured = 0
        memory = sum(workload.scenario.models[name].memory_gb for name in spec.models)
        self._weights = memory / spec.hardware.memory_gb if spec.hardware.memory_gb else 1.0

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
