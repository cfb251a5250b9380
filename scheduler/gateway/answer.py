"""Plain answers: read for usage, renamed where needed, or put together from a stream."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from .errors import GatewayError
from .sse import END, data_of, model_renamer
from .usage import Usage, read_answer

MOST_ANSWER_BYTES = 64 * 1024 * 1024


class EngineError(msgspec.Struct):
    """The error shapes of the engines we know: nested, or flat as vLLM once had it."""

    message: str = ""
    type: str | None = None
    code: str | int | None = None
    param: str | None = None


class ErrorBody(msgspec.Struct):
    """An engine's error answer."""

    error: EngineError | None = None
    message: str | None = None
    detail: msgspec.Raw | None = None


def read_plain(body: bytes, usage: Usage, served: str, public: str) -> bytes:
    """Note the usage of a plain answer and give it back under the public name."""
    try:
        answer = read_answer(body)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return body
    usage.take(answer.usage)
    if answer.model is None or answer.model == public:
        return body
    rename = model_renamer(served, public)
    return rename(body) if rename is not None else body


def client_error(body: bytes, served: str, public: str) -> tuple[bytes, str]:
    """An engine's 4xx as the caller gets it, and the reason code.

    The body is passed on as it is but for the served name, or brought into OpenAI's
    shape where it has another.
    """
    text = body.decode("utf-8", "replace")
    try:
        parsed = msgspec.json.decode(body, type=ErrorBody)
    except (msgspec.DecodeError, msgspec.ValidationError):
        parsed = ErrorBody()
    too_long = "context" in text and ("exceed" in text or "maximum context length" in text)
    reason = "context_length_exceeded" if too_long else "invalid_request"
    if parsed.error is not None:
        return hide(body, served, public), reason
    detail = parsed.message or (bytes(parsed.detail).decode() if parsed.detail else "")
    message = hide(detail.encode(), served, public).decode() or "The model server refused it."
    error = GatewayError("invalid_request", message)
    error.code = reason
    return error.body(), reason


def hide(text: bytes, served: str, public: str) -> bytes:
    """Put the public name wherever the served one stands, in either way JSON writes it."""
    if served == public:
        return text
    plain = msgspec.json.encode(served)[1:-1]
    shown = msgspec.json.encode(public)[1:-1]
    return text.replace(plain, shown).replace(plain.replace(b"/", b"\\/"), shown)


def error_message(raw: bytes, served: str, public: str) -> str:
    """What an in-band error object says, under the public name."""
    hidden = hide(raw, served, public)
    try:
        parsed = msgspec.json.decode(hidden, type=EngineError)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ""
    return parsed.message


@dataclass(slots=True)
class Choice:
    """One choice being put together."""

    role: str = "assistant"
    content: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    finish: str | None = None


class Assembler:
    """Builds the plain answer out of a stream's events, for engines that must be streamed.

    Only for answers of known shape: the caller of a request with log probabilities or
    several choices is served without it.
    """

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._head: dict[str, Any] = {}
        self._tail: dict[str, Any] = {}
        self._choices: dict[int, Choice] = {}

    def feed(self, events: bytes) -> None:
        """Take whole events, already renamed."""
        for event in END.split(events):
            payload = data_of(event)
            if payload and payload != b"[DONE]":
                self._take(msgspec.json.decode(payload))

    def _take(self, chunk: dict[str, Any]) -> None:
        self._head = self._head or chunk
        for name in ("usage", "timings"):
            if chunk.get(name):
                self._tail[name] = chunk[name]
        for piece in chunk.get("choices") or []:
            choice = self._choices.setdefault(piece.get("index", 0), Choice())
            choice.finish = piece.get("finish_reason") or choice.finish
            if piece.get("text"):
                choice.text.append(piece["text"])
            delta = piece.get("delta") or {}
            choice.role = delta.get("role") or choice.role
            if delta.get("content"):
                choice.content.append(delta["content"])
            if delta.get("reasoning_content"):
                choice.reasoning.append(delta["reasoning_content"])
            for call in delta.get("tool_calls") or []:
                self._merge(choice.calls, call)

    @staticmethod
    def _merge(calls: dict[int, dict[str, Any]], piece: dict[str, Any]) -> None:
        known = calls.setdefault(piece.get("index", len(calls)), {"type": "function"})
        if piece.get("id"):
            known["id"] = piece["id"]
        function = known.setdefault("function", {"name": "", "arguments": ""})
        given = piece.get("function") or {}
        function["name"] += given.get("name") or ""
        function["arguments"] += given.get("arguments") or ""

    def body(self) -> bytes:
        """The whole answer as JSON."""
        chat = self._operation == "chat"
        answer: dict[str, Any] = {
            "id": self._head.get("id", ""),
            "object": "chat.completion" if chat else "text_completion",
            "created": self._head.get("created", 0),
            "model": self._head.get("model", ""),
            "choices": [
                self._choice(index, self._choices[index], chat) for index in sorted(self._choices)
            ],
            **self._tail,
        }
        if "system_fingerprint" in self._head:
            answer["system_fingerprint"] = self._head["system_fingerprint"]
        return msgspec.json.encode(answer)

    @staticmethod
    def _choice(index: int, choice: Choice, chat: bool) -> dict[str, Any]:
        if not chat:
            return {
                "index": index,
                "text": "".join(choice.text) or "".join(choice.content),
                "logprobs": None,
                "finish_reason": choice.finish,
            }
        content = "".join(choice.content)
        message: dict[str, Any] = {"role": choice.role, "content": content}
        if choice.reasoning:
            message["reasoning_content"] = "".join(choice.reasoning)
        if choice.calls:
            message["tool_calls"] = [choice.calls[key] for key in sorted(choice.calls)]
            message["content"] = content or None
        return {"index": index, "message": message, "finish_reason": choice.finish}
