"""What differs between model servers, as one small class each.

An adapter is stateless: it knows an engine's paths, what must change in a request's body
for it, and which of its habits the relay has to mind.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from .continuation import Continuation, Fields, Partial, by_text

PATHS = {
    "chat": "/v1/chat/completions",
    "text_completion": "/v1/completions",
    "embeddings": "/v1/embeddings",
}


@dataclass(frozen=True, slots=True)
class Names:
    """Under which names an engine shows its figures; of several the first that is there.

    Requests running and waiting; the share of its KV memory in use, and of the GPU's time,
    both 0-1; the tokens that its KV memory can hold, as a figure or in the labels of one.
    """

    running: tuple[str, ...] = ()
    queue: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    cache_tokens: tuple[str, ...] = ()
    cache_labels: tuple[str, ...] = ()


class Engine:
    """A server with OpenAI's API and no known peculiarities."""

    name = "openai"
    health_path = "/v1/models"
    metrics = Names()
    # It notices a caller's hang-up on plain calls too.
    aborts_plain = True
    # A connection may serve another request after a stream.
    reuses_connections = True
    # It has OpenAI's chat API.
    chats = True
    # It may repeat a partial answer before it goes on.
    echoes = True
    # What it has computed stays in its prefix cache when a request is stopped.
    keeps_prefix = False
    # A slot's state can be saved to a file and restored, see ``gateway.slots``.
    saves_slots = False
    # It counts tokens in each event of a stream when asked for ``continuous_usage_stats``.
    counts = False

    def path(self, operation: str) -> str:
        """The path of an operation: chat, text_completion or embeddings."""
        return PATHS[operation]

    def priority(self, level: int) -> int | None:
        """The engine's own number for a level 0-9, where the replica is told to mind it."""
        return None

    def prioritised(self, number: int | None, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """Top-level fields that tell the engine ``number``, or nothing (None), given the
        caller's ``fields``. The caller's own ``priority`` is taken out by the relay."""
        return {} if number is None else {"priority": number}

    def tells(self, operation: str) -> str:
        """The field that makes it tell, event by event of a stream, the ids of tokens or how
        many they are; empty where there is none."""
        return ""

    def continuation(self, fields: Fields, operation: str, partial: Partial) -> Continuation:
        """The call that goes on from a partial answer."""
        return by_text(fields, operation, partial)

    def changes(
        self, fields: Mapping[str, msgspec.Raw], *, served: str, public: str, level: int | None
    ) -> dict[str, Any]:
        """Top-level fields to set in place of the caller's ``fields``. ``level`` is None where
        engine priority is off."""
        number = None if level is None else self.priority(level)
        found = self.prioritised(number, fields)
        if served != public:
            found["model"] = served
        return found
