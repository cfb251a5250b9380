"""The scheduler's invariants over random event sequences (see ``machine``)."""

import os

from hypothesis import HealthCheck, Phase, settings

from .machine import World

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"

TestInvariants = World.TestCase
TestInvariants.settings = settings(
    max_examples=400 if LONG else 40,
    stateful_step_count=60,
    deadline=None,
    derandomize=not LONG,
    # Without shrinking: it takes minutes, and the seeds are the same the next time.
    phases=tuple(Phase) if LONG else (Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
