"""What differs between model servers, as one small class each.

An adapter is stateless: it knows an engine's paths, what must change in a request's body
for it, and which of its habits the relay has to mind.
"""

from typing import Any

PATHS = {
    "chat": "/v1/chat/completions",
    "text_completion": "/v1/completions",
    "embeddings": "/v1/embeddings",
}


class Engine:
    """A server with OpenAI's API and no known peculiarities."""

    name = "openai"
    health_path = "/v1/models"
    # It notices a caller's hang-up on plain calls too.
    aborts_plain = True
    # A connection may serve another request after a stream.
    reuses_connections = True

    def path(self, operation: str) -> str:
        """The path of an operation: chat, text_completion or embeddings."""
        return PATHS[operation]

    def priority(self, level: int) -> int | None:
        """The engine's own number for a level 0-9, where the replica is told to mind it."""
        return None

    def changes(self, *, served: str, public: str, level: int | None) -> dict[str, Any]:
        """Top-level fields to set. ``level`` is None where engine priority is off."""
        found: dict[str, Any] = {}
        if served != public:
            found["model"] = served
        number = None if level is None else self.priority(level)
        if number is not None:
            found["priority"] = number
        return found
