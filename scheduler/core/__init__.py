"""The decision engine: pure, and of the standard library alone.

``step(state, event, now) -> list[Decision]``. Time is an argument (integer nanoseconds),
nothing here reads a clock, does I/O, logs or draws at random, so the same events always
give the same decisions: in the gateway, in tests and on a virtual clock.
"""
