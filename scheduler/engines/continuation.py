"""How an engine is asked to go on from a partial answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

Fields = Mapping[str, msgspec.Raw]

# What a chat body has that a completion body must not.
CHAT_ONLY = (
    "messages",
    "max_completion_tokens",
    "chat_template",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "parallel_tool_calls",
    "tools",
    "tool_choice",
)
_messages = msgspec.json.Decoder(list[msgspec.Raw]).decode
_text = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, slots=True)
class Partial:
    """An answer so far: its text and, where known, token ids of prompt and text (empty
    otherwise); ``tokens`` output tokens."""

    text: str
    prompt_ids: list[int]
    ids: list[int]
    tokens: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """The call that goes on: its operation, fields to set and fields to leave out."""

    operation: str
    changes: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


def by_text(fields: Fields, operation: str, partial: Partial) -> Continuation:
    """The partial answer as the last message, or behind the prompt."""
    changes = less_tokens(fields, partial.tokens)
    if operation == "chat":
        said = {"role": "assistant", "content": partial.text}
        changes["messages"] = [*_messages(fields["messages"]), said]
    else:
        changes["prompt"] = _text(fields["prompt"]) + partial.text
    return Continuation(operation, changes)


def by_final_message(
    fields: Fields, operation: str, partial: Partial, **more: bool
) -> Continuation:
    """By text, the last message being marked as one to be continued."""
    found = by_text(fields, operation, partial)
    if operation == "chat":
        found.changes.update(continue_final_message=True, **more)
    return found


def by_ids(fields: Fields, partial: Partial) -> Continuation:
    """Token ids of prompt and answer as a completion's prompt: exact, and the prefix is
    found in the engine's cache."""
    changes = less_tokens(fields, partial.tokens)
    limit = changes.pop("max_completion_tokens", None)
    if limit is not None:
        changes["max_tokens"] = limit
    changes["prompt"] = [*partial.prompt_ids, *partial.ids]
    return Continuation("text_completion", changes, CHAT_ONLY)


def less_tokens(fields: Fields, produced: int) -> dict[str, Any]:
    """The caller's bounds on output tokens, less what exists; at least one."""
    found: dict[str, Any] = {}
    for name in ("max_tokens", "max_completion_tokens", "min_tokens"):
        raw = fields.get(name)
        if raw is None:
            continue
        value = msgspec.json.decode(raw, type=int | None)
        if value is not None:
            found[name] = max(0 if name == "min_tokens" else 1, value - produced)
    return found
