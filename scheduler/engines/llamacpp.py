"""llama.cpp's server: no priorities, and hang-ups noticed on streams alone."""

from .base import Engine, Names


class LlamaCpp(Engine):
    """Plain calls run to their end when the caller has left, so all are made as streams;
    after a stream it closes the connection although it says keep-alive. A partial answer as
    the last message is continued, measured exact where its slot is the same or restored."""

    name = "llamacpp"
    health_path = "/health"
    # It has no gauge of its KV memory.
    metrics = Names(
        running=("llamacpp:requests_processing",), queue=("llamacpp:requests_deferred",)
    )
    aborts_plain = False
    reuses_connections = False
    saves_slots = True

    def tells(self, operation: str) -> str:
        """How many tokens there are: a character of several is one event."""
        return "timings_per_token"
