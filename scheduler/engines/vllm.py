"""vLLM: lower priority values first, and only with --scheduling-policy priority."""

from .base import Engine, Names
from .continuation import Continuation, Fields, Partial, by_ids, by_text


class Vllm(Engine):
    """Aborts on hang-up, plain calls included, within about 60 ms. Goes on from token ids
    where it told them: measured exact in 19 of 19 cuts, text in 16."""

    name = "vllm"
    health_path = "/health"
    metrics = Names(
        running=("vllm:num_requests_running",),
        queue=("vllm:num_requests_waiting",),
        memory=("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    )
    tells = "return_token_ids"
    echoes = False
    keeps_prefix = True

    def priority(self, level: int) -> int:
        """The level itself: 0 is the most urgent on both sides."""
        return level

    def continuation(self, fields: Fields, operation: str, partial: Partial) -> Continuation:
        """By ids where all are known, else as a final message to be continued."""
        if partial.prompt_ids and len(partial.ids) == partial.tokens:
            return by_ids(fields, partial)
        found = by_text(fields, operation, partial)
        if operation == "chat":
            found.changes["continue_final_message"] = True
            found.changes["add_generation_prompt"] = False
        return found
