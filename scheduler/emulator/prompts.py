"""From the texts of a request to the token ids of its prompt."""

from collections.abc import Sequence

from .errors import ApiError
from .requests import Message
from .tokens import ASSISTANT, END_OF_TURN, SYSTEM, TOOL, USER, tokenize

_ROLES = {
    "system": SYSTEM,
    "developer": SYSTEM,
    "user": USER,
    "assistant": ASSISTANT,
    "tool": TOOL,
    "function": TOOL,
}


def prompts_of(value: str | list[str | int | list[int]]) -> list[list[int]]:
    """Token ids of each prompt in ``prompt`` or ``input``. Raises ApiError when empty."""
    if isinstance(value, str):
        prompts = [tokenize(value)]
    elif all(isinstance(item, int) for item in value):
        prompts = [[item for item in value if isinstance(item, int)]]
    else:
        prompts = [tokenize(item) if isinstance(item, str) else _ids(item) for item in value]
    if not prompts or not all(prompts):
        raise ApiError("Either prompt or prompt_embeds must be provided and non-empty.")
    if any(token < 0 for prompt in prompts for token in prompt):
        raise ApiError("Token id is out of vocabulary.")
    return prompts


def _ids(item: int | list[int]) -> list[int]:
    if isinstance(item, int):
        raise ApiError("prompt must not mix texts and token ids.")
    return item


def message_pairs(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """(role, text) of each turn. Raises ApiError for content that is no text."""
    return [(message.role, _text(message)) for message in messages]


def _text(message: Message) -> str:
    if message.content is None:
        return ""
    if isinstance(message.content, str):
        return message.content
    if any(part.type != "text" or part.text is None for part in message.content):
        raise ApiError("This is not a multimodal model: content must be text.", param="messages")
    return "".join(part.text or "" for part in message.content)


def chat_prompt_ids(
    messages: Sequence[tuple[str, str]],
    *,
    add_generation_prompt: bool = True,
    continue_final_message: bool = False,
) -> list[int]:
    """The ids of (role, text) turns. Raises ApiError for a role there is none of."""
    ids: list[int] = []
    for role, text in messages:
        if role not in _ROLES:
            raise ApiError(f"Unexpected message role: {role!r}", param="messages")
        ids += [_ROLES[role], *tokenize(text), END_OF_TURN]
    if continue_final_message:
        del ids[-1]
    elif add_generation_prompt:
        ids.append(ASSISTANT)
    return ids
