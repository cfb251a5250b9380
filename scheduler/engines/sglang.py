"""SGLang: higher priority values first, unless its launch flag says otherwise."""

from .base import Engine, Names
from .continuation import Continuation, Fields, Partial, by_final_message, by_ids

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
        cache_tokens=("sglang:max_total_num_tokens",),
    )

    keeps_prefix = True
    counts = True

    def tells(self, operation: str) -> str:
        """Ids on plain completions; a chat stream that asks for them is refused."""
        return "return_token_ids" if operation == "text_completion" else ""

    def continuation(self, fields: Fields, operation: str, partial: Partial) -> Continuation:
        """By ids where all are known, else by text: its radix cache holds the beginning."""
        if partial.prompt_ids and len(partial.ids) == partial.tokens:
            return by_ids(fields, partial)
        return by_final_message(fields, operation, partial)

    def priority(self, level: int) -> int:
        """0-9 from the other end: level 0 is 9."""
        return LEAST_URGENT - level
