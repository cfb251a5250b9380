"""Invariants that take time to be seen (see ``timed_machine``)."""

import os

from hypothesis import HealthCheck, settings

from .timed_machine import Timed, Weighted

LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"

SETTINGS = settings(
    max_examples=400 if LONG else 40,
    stateful_step_count=30,
    deadline=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)

TestGuard = Timed.TestCase
TestGuard.settings = SETTINGS
TestShares = Weighted.TestCase
# Each step of these is hundreds of the scheduler's.
TestShares.settings = settings(
    SETTINGS, max_examples=400 if LONG else 5, stateful_step_count=30 if LONG else 8
)
