"""What the caller has of an answer, kept so that another attempt can go on from there."""

import re
from dataclasses import dataclass, field

import msgspec

from scheduler.engines.continuation import Partial

from .payload import Payload, is_null
from .usage import Usage

# Requests with these go by more than the text so far, so that nothing could continue them.
BINDING = frozenset(
    {
        "audio",
        "best_of",
        "echo",
        "function_call",
        "functions",
        "grammar",
        "json_schema",
        "logprobs",
        "modalities",
        "prompt_logprobs",
        "reasoning",
        "reasoning_effort",
        "response_format",
        "structured_outputs",
        "suffix",
        "tool_choice",
        "tools",
        "top_logprobs",
        "use_beam_search",
    }
)
PENALTIES = ("frequency_penalty", "presence_penalty")
ASSISTANT = re.compile(rb'"role"\s*:\s*"assistant"')
MEDIA = re.compile(rb'"(?:image_url|input_audio|audio_url|video_url|input_image|file)"\s*:')


def continuable(payload: Payload, operation: str) -> bool:
    """Whether a request's answer can go on elsewhere from the text that exists."""
    if operation not in ("chat", "text_completion") or payload.choices != 1:
        return False
    if any(not is_null(payload.fields[key]) for key in BINDING & payload.keys):
        return False
    if any(key.startswith("guided_") for key in payload.keys):
        return False
    if any(_number(payload, key) != 0 for key in PENALTIES):
        return False
    if operation == "chat":
        messages = bytes(payload.fields["messages"])
        # A caller's own partial answer and ours would be two.
        last = messages[messages.rfind(b'"role"') :]
        return MEDIA.search(messages) is None and ASSISTANT.match(last) is None
    # Lists of prompts are several answers in one, and token ids have no text to go on from.
    return memoryview(payload.fields["prompt"])[0] == ord('"')


def _number(payload: Payload, key: str) -> float:
    raw = payload.fields.get(key)
    if raw is None or is_null(raw):
        return 0.0
    try:
        return msgspec.json.decode(raw, type=float)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return 1.0


def stops_of(payload: Payload) -> tuple[str, ...]:
    """The request's stop strings."""
    raw = payload.fields.get("stop")
    if raw is None or is_null(raw):
        return ()
    try:
        found = msgspec.json.decode(raw, type=str | list[str])
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ()
    return (found,) if isinstance(found, str) else tuple(found)


@dataclass(slots=True)
class Transcript:
    """Over all attempts: the head that every chunk repeats, the text that went out, and,
    where the engine tells them, token ids of the prompt and of that text.

    ``bound`` says that more than text went out (reasoning, say), which nothing could continue.
    ``guessed`` says that some events' tokens were neither told nor counted by the engine.
    ``tokens`` counts output tokens whose text is out. Ids beyond that (half a character,
    the beginning of a stop string) are forgotten: the next attempt makes them again.
    """

    id: str = ""
    created: int = 0
    model: str = ""
    role: str = ""
    text: list[str] = field(default_factory=list)
    prompt_ids: list[int] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    recomputed: int = 0
    bound: bool = False
    guessed: bool = False
    _pending: list[int] = field(default_factory=list)

    @property
    def begun(self) -> bool:
        """Whether the caller has any of it."""
        return bool(self.id)

    @property
    def prompt_told(self) -> int:
        """Tokens of the prompt where the engine told them, or their ids; else 0."""
        return self.prompt_tokens or len(self.prompt_ids)

    def whole(self) -> str:
        """The text so far."""
        if len(self.text) > 1:
            self.text[:] = ["".join(self.text)]
        return self.text[0] if self.text else ""

    def add(self, text: str, ids: list[int] | None, count: int = 0) -> None:
        """Text that goes out now, with the ids that came along, or the ``count`` of tokens
        over all attempts; without either it counts as one, which is a guess."""
        if ids:
            self._pending += ids
        if text:
            self.text.append(text)
            if self._pending:
                self.tokens += len(self._pending)
            else:
                self.guessed |= not count
                self.tokens = count or self.tokens + 1
            self.ids += self._pending
            self._pending.clear()

    def pause(self) -> None:
        """The attempt is over; what was not out is forgotten."""
        self._pending.clear()

    def partial(self, model: str) -> Partial:
        """As the engine that is to go on gets it: another model's token ids mean nothing."""
        prompt, ids = (self.prompt_ids, self.ids) if model == self.model else ([], [])
        return Partial(self.whole(), prompt, ids, self.tokens)

    def total(self, usage: Usage, produced_before: int) -> Usage:
        """Usage of the whole answer, ``usage`` being the last attempt's own, which went on
        from ``produced_before`` tokens: the prompt once, completion summed."""
        if not usage.reported:
            return usage
        prompt = self.prompt_tokens or max(0, usage.prompt - produced_before)
        cached = (
            min(self.cached_tokens, prompt) if self.prompt_tokens else min(usage.cached, prompt)
        )
        return Usage(prompt, cached, usage.completion + produced_before, reported=True)
