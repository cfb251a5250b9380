"""Plain answers: read for usage, renamed where needed, or put together from a stream."""

from dataclasses import dataclass, field
from typing import Any

import msgspec

from .errors import GatewayError
from .naming import hide, hide_in_text, model_renamer
from .sse import END, data_of
from .usage import Usage, read_answer

MOST_ANSWER_BYTES = 64 * 1024 * 1024
# vLLM has the first name since 0.12, others and older ones the second.
REASONING = ("reasoning", "reasoning_content")


class UnreadableAnswerError(Exception):
    """The engine's answer can't be understood, or an answer can't be made of its stream."""


class ErrorBody(msgspec.Struct):
    """An engine's error answer: an object or a text under ``error``, or flat as vLLM and
    FastAPI have it. Each is empty where absent."""

    error: msgspec.Raw = msgspec.Raw()
    message: msgspec.Raw = msgspec.Raw()
    detail: msgspec.Raw = msgspec.Raw()


def _text(raw: bytes) -> str:
    """What a JSON value says: a string's own text, else the JSON; empty for null."""
    if raw in (b"", b"null"):
        return ""
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return ""
    return value if isinstance(value, str) else raw.decode("utf-8", "replace")


def read_plain(body: bytes, usage: Usage, served: str, public: str) -> bytes:
    """Note the usage of a plain answer and give it back under the public name.

    Raises UnreadableAnswerError for what is no JSON: an answer that was cut.
    """
    try:
        answer = read_answer(body)
    except msgspec.ValidationError:
        return body  # JSON of another shape than we know
    except (msgspec.DecodeError, RecursionError):
        raise UnreadableAnswerError("the answer is no JSON") from None
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
    too_long = "context" in text and ("exceed" in text or "maximum context length" in text)
    reason = "context_length_exceeded" if too_long else "invalid_request"
    parsed = _error_body(body)
    error = bytes(parsed.error)
    if error.startswith(b"{"):
        return hide(body, served, public), reason
    said = _text(error) or _text(bytes(parsed.message)) or _text(bytes(parsed.detail))
    refusal = GatewayError(
        "invalid_request",
        hide_in_text(said, served, public) or "The model server refused the request.",
    )
    refusal.code = reason
    return refusal.body(), reason


def _error_body(body: bytes) -> ErrorBody:
    try:
        return msgspec.json.decode(body, type=ErrorBody)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return ErrorBody()


def error_message(raw: bytes, served: str, public: str) -> str:
    """What an in-band error says, under the public name; empty where it says nothing."""
    said = _text(bytes(_error_body(raw).message)) if raw.startswith(b"{") else _text(raw)
    return hide_in_text(said, served, public)


@dataclass(slots=True)
class Choice:
    """One choice being put together."""

    role: str = "assistant"
    content: list[str] = field(default_factory=list)
    reasoning: dict[str, list[str]] = field(default_factory=dict)
    text: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
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
        self._size = 0

    def feed(self, events: bytes) -> None:
        """Take whole events, already renamed. Raises UnreadableAnswerError."""
        self._size += len(events)
        if self._size > MOST_ANSWER_BYTES:
            raise UnreadableAnswerError("the answer is too long")
        for event in END.split(events):
            payload = data_of(event)
            if payload and payload != b"[DONE]":
                try:
                    self._take(msgspec.json.decode(payload))
                except (msgspec.DecodeError, AttributeError, TypeError) as error:
                    raise UnreadableAnswerError("the stream cannot be read") from error

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
            for name in REASONING:
                if delta.get(name):
                    choice.reasoning.setdefault(name, []).append(delta[name])
            for call in delta.get("tool_calls") or []:
                self._merge(choice.calls, call)

    @staticmethod
    def _merge(calls: list[dict[str, Any]], piece: dict[str, Any]) -> None:
        """Add a fragment to the call it belongs to. Indexes alone can't be trusted: some
        engines give two calls the same one, or none at all; an id is a call's own."""
        index, name = piece.get("index"), piece.get("id")
        same = [call for call in calls if index is None or call["index"] == index]
        if name:
            same = [call for call in same if call.get("id") in (None, name)]
        if same:
            known = same[-1]
        else:
            function = {"name": "", "arguments": ""}
            known = {"index": index, "type": "function", "function": function}
            calls.append(known)
        if name:
            known["id"] = name
        given = piece.get("function") or {}
        known["function"]["name"] += given.get("name") or ""
        known["function"]["arguments"] += given.get("arguments") or ""

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
        for name, pieces in choice.reasoning.items():
            message[name] = "".join(pieces)
        if choice.calls:
            message["tool_calls"] = [
                {key: value for key, value in call.items() if key != "index"}
                for call in choice.calls
            ]
            message["content"] = content or None
        return {"index": index, "message": message, "finish_reason": choice.finish}
