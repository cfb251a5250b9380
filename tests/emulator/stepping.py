"""An engine on a clock that the test moves."""

from collections.abc import Iterator
from itertools import count
from zlib import crc32

from scheduler.emulator.engine import Engine, Output, Sequence, ServiceModel

# The numbers are easy to add up: 10 ms a step and no more, one prefill token per ms.
PLAIN = ServiceModel(
    slots=4,
    kv_tokens=1600,
    prefill_tokens_per_s=1000.0,
    step_base_ms=10.0,
    step_per_running_ms=0.0,
)


class Bench:
    """Runs an engine step by step and keeps what comes out, with its time in seconds."""

    def __init__(self, model: ServiceModel = PLAIN) -> None:
        self.engine = Engine(model)
        self.now = 0.0
        self.log: list[tuple[float, Output]] = []

    def submit(
        self,
        name: str,
        prompt: int | list[int] = 10,
        tokens: int = 5,
        priority: int = 0,
        answer: Iterator[int] | None = None,
    ) -> Sequence:
        """Queue a sequence; a number for its prompt makes one that nobody shares."""
        if isinstance(prompt, int):
            prompt = [1000 + (crc32(name.encode()) % 10**6) * 1000 + at for at in range(prompt)]
        sequence = Sequence(name, list(prompt), answer or count(5000), tokens, priority)
        self.engine.submit(sequence, self.now)
        return sequence

    def step(self) -> bool:
        """One step; False with nothing to run."""
        ends = self.engine.begin_step(self.now)
        if ends is None:
            return False
        self.now = ends
        self.log += [(self.now, output) for output in self.engine.end_step(self.now)]
        return True

    def run(self, steps: int = 100_000) -> None:
        """Until nothing runs, or that many steps."""
        for _ in range(steps):
            if not self.step():
                return

    def times(self, sequence: Sequence) -> list[float]:
        """When its tokens came, in ms."""
        return [round(at * 1000, 6) for at, output in self.log if output.sequence is sequence]
