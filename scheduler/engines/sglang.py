"""SGLang: higher priority values first, unless its launch flag says otherwise."""

from .base import Engine, Names

LEAST_URGENT = 9


class Sglang(Engine):
    """Priorities count with --enable-priority-scheduling. The flag that turns their direction
    round, --schedule-low-priority-values-first, must stay off where they are sent."""

    name = "sglang"
    health_path = "/health"
    metrics = Names(
        running=("sglang:num_running_reqs",),
        queue=("sglang:num_queue_reqs",),
        memory=("sglang:token_usage",),
    )

    def priority(self, level: int) -> int:
        """0-9 from the other end: level 0 is 9."""
        return LEAST_URGENT - level
