"""vLLM: lower priority values first, and only with --scheduling-policy priority."""

from .base import Engine


class Vllm(Engine):
    """Aborts on hang-up, plain calls included, within about 60 ms."""

    name = "vllm"
    health_path = "/health"

    def priority(self, level: int) -> int:
        """The level itself: 0 is the most urgent on both sides."""
        return level
