"""A stream that another attempt may carry on: parsed event by event, rebuilt after a seam.

The first attempt's events pass through as they came, but for token ids that the caller did
not ask for. Later attempts' events are written anew under the first one's id, so that all
looks like one uninterrupted answer.
"""

import re
from collections.abc import Callable

import msgspec

from .seam import Seam
from .sse import DONE, END, Tap, data_of
from .transcript import Transcript
from .usage import Reported, Usage

# What engines add when asked to tell more than the caller wants to know.
TOLD = re.compile(
    rb',\s*"(?:prompt_text"\s*:\s*null|(?:prompt_token_ids|token_ids)"\s*:\s*(?:null|\[[\d,\s]*\])|timings"\s*:\s*\{[^{}]*\})'
)
# A chunk's running usage, and the null that stands for none.
RUNNING = re.compile(rb',\s*"usage"\s*:\s*(?:null|\{(?:[^{}]|\{[^{}]*\})*\})')


class Delta(msgspec.Struct):
    """What a chat chunk adds."""

    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None


class Piece(msgspec.Struct):
    """A choice of a chunk."""

    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None
    stop_reason: msgspec.Raw = msgspec.Raw()
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class Timings(msgspec.Struct):
    """llama.cpp's account of an attempt so far, in tokens."""

    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


class Chunk(msgspec.Struct):
    """An event of a completion's stream."""

    id: str = ""
    object: str = ""
    created: int = 0
    model: str = ""
    choices: list[Piece] | None = None
    usage: Reported | None = None
    prompt_token_ids: list[int] | None = None
    timings: Timings | None = None
    error: msgspec.Raw = msgspec.Raw()


_read = msgspec.json.Decoder(Chunk).decode


class ResumableTap(Tap):
    """A ``Tap`` that also keeps the transcript. ``produced`` tokens existed before it."""

    __slots__ = (
        "_chat",
        "_continues",
        "_finish",
        "_public",
        "_reasoned",
        "_running_usage",
        "_seam",
        "_strip",
        "_strip_usage",
        "produced",
        "transcript",
        "worked",
    )

    def __init__(
        self,
        usage: Usage,
        transcript: Transcript,
        *,
        show_usage: bool,
        rename: Callable[[bytes], bytes] | None,
        public: str,
        chat: bool,
        seam: Seam | None,
        strip: bool,
        strip_usage: bool = False,
        running_usage: bool = False,
    ) -> None:
        super().__init__(usage, show_usage=show_usage, rename=rename)
        self.transcript = transcript
        self.produced = transcript.tokens
        # Prompt tokens that this attempt had to compute, where the engine tells; -1 unknown.
        self.worked = -1
        self._public = public
        self._chat = chat
        self._seam = seam
        self._strip = strip
        self._strip_usage = strip_usage
        self._running_usage = running_usage
        self._continues = transcript.begun
        self._finish: str | None = None
        # Events of reasoning, which is no part of the transcript.
        self._reasoned = 0

    @property
    def seen(self) -> int:
        """Tokens that the engine has made so far in this attempt, of whatever kind."""
        return self.tokens + self._reasoned

    @property
    def complete(self) -> bool:
        """Whether the answer came to its end."""
        return self.done or self._closing or self._finish is not None

    def _pass(self, whole: bytes) -> bytes:
        return b"" if self.done else self._all(whole)

    def _all(self, whole: bytes) -> bytes:
        kept, start = [], 0
        for match in END.finditer(whole):
            event = whole[start : match.end()]
            start = match.end()
            kept.append(self._one(event))
            if self.done:
                break
        self.done |= self._seam is not None and self._seam.stopped
        return b"".join(kept)

    def _one(self, event: bytes) -> bytes:
        payload = data_of(event)
        if not payload:
            return event
        if payload == DONE:
            self.done = True
            return event
        try:
            chunk = _read(payload)
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
            return event
        error = bytes(chunk.error)
        if (error and error != b"null") or chunk.object == "error":
            self.error, self.done = error or payload, True
            return b""
        self.usage.take(chunk.usage)
        if chunk.usage is not None and not chunk.choices:
            self._closing = True
            return self._usage(event) if self._show_usage else b""
        return self._rebuilt(chunk) if self._continues else self._first(chunk, event)

    def _first(self, chunk: Chunk, event: bytes) -> bytes:
        """An event of the first attempt."""
        transcript = self.transcript
        if not transcript.id:
            transcript.id, transcript.created = chunk.id, chunk.created
        if chunk.prompt_token_ids:
            transcript.prompt_ids = chunk.prompt_token_ids
        for piece in chunk.choices or ():
            if piece.prompt_token_ids:
                transcript.prompt_ids = piece.prompt_token_ids
            transcript.add(_text(piece), piece.token_ids, self._count(chunk))
            if piece.delta and (piece.delta.reasoning or piece.delta.reasoning_content):
                transcript.bound = True
                self._reasoned += 1
            self._finish = piece.finish_reason or self._finish
        self.tokens = transcript.tokens - self.produced
        if self._strip and (b"token_ids" in event or b'"timings"' in event):
            event = TOLD.sub(b"", event)
        if self._strip_usage and b'"usage"' in event:
            event = RUNNING.sub(b"", event)
        return self._rename(event) if self._rename is not None else event

    def _count(self, chunk: Chunk) -> int:
        """Output tokens of all attempts as the engine counts them, 0 where it does not; what
        it says of the prompt is kept."""
        told = chunk.timings
        if told is None:
            return self._running(chunk.usage)
        self.worked = told.prompt_n
        transcript = self.transcript
        if not self._continues and not transcript.prompt_tokens:
            transcript.prompt_tokens = told.cache_n + told.prompt_n
            transcript.cached_tokens = told.cache_n
        return self.produced + told.predicted_n if told.predicted_n else 0

    def _running(self, told: Reported | None) -> int:
        """The same of usage that comes along with the text."""
        if told is None or not told.completion_tokens:
            return 0
        transcript = self.transcript
        if not self._continues and not transcript.prompt_tokens and told.prompt_tokens:
            transcript.prompt_tokens = told.prompt_tokens
            details = told.prompt_tokens_details
            transcript.cached_tokens = (details.cached_tokens or 0) if details else 0
        return self.produced + told.completion_tokens

    def _rebuilt(self, chunk: Chunk) -> bytes:
        """An event of a later attempt, as the first would have gone on."""
        out = []
        for piece in chunk.choices or ():
            text = _text(piece)
            if self._seam is not None:
                text = self._seam.add(text)
            self.transcript.add(text, piece.token_ids, self._count(chunk))
            finish = piece.finish_reason
            if self._seam is not None and self._seam.stopped:
                finish = "stop"
            if text:
                out.append(self._chunk(text, None))
            if finish is not None and self._finish is None:
                self._finish = finish
                out.append(self._chunk("", finish))
        self.tokens = self.transcript.tokens - self.produced
        return b"".join(out)

    def closing(self) -> bytes:
        """What the caller must still get when a stop string across the seam has ended the
        answer before the engine did; the engine's own count of tokens never comes then."""
        if self._seam is None or not self._seam.stopped or self.usage.reported:
            return b""
        transcript, done = self.transcript, b"data: [DONE]\n\n"
        prompt = transcript.prompt_told
        usage = self.usage
        usage.prompt, usage.completion = prompt + self.produced, transcript.tokens - self.produced
        # Where the prompt was never counted, the row has an estimate.
        usage.reported = prompt > 0
        if not self._show_usage:
            return done
        return self._figures(Usage(prompt, transcript.cached_tokens, transcript.tokens)) + done

    def _chunk(self, text: str, finish: str | None) -> bytes:
        choice: dict[str, object] = {"index": 0}
        if self._chat:
            choice["delta"] = {"content": text} if text else {}
        else:
            choice["text"] = text
        choice["logprobs"] = None
        choice["finish_reason"] = finish
        return self._event([choice], self._so_far() if self._running_usage else None)

    def _so_far(self) -> dict[str, object]:
        transcript = self.transcript
        prompt = transcript.prompt_told
        return _as_json(Usage(prompt, transcript.cached_tokens, transcript.tokens))

    def _usage(self, event: bytes) -> bytes:
        """The usage of the whole answer."""
        if not self._continues:
            return self._rename(event) if self._rename is not None else event
        return self._figures(self.transcript.total(self.usage, self.produced))

    def _figures(self, total: Usage) -> bytes:
        return self._event([], _as_json(total))

    def _event(self, choices: list[dict[str, object]], usage: dict[str, object] | None) -> bytes:
        transcript = self.transcript
        event: dict[str, object] = {
            "id": transcript.id,
            "object": "chat.completion.chunk" if self._chat else "text_completion",
            "created": transcript.created,
            "model": self._public,
            "choices": choices,
        }
        if usage is not None:
            event["usage"] = usage
        return b"data: " + msgspec.json.encode(event) + b"\n\n"


def _as_json(total: Usage) -> dict[str, object]:
    usage: dict[str, object] = {
        "prompt_tokens": total.prompt,
        "completion_tokens": total.completion,
        "total_tokens": total.prompt + total.completion,
    }
    if total.cached:
        usage["prompt_tokens_details"] = {"cached_tokens": total.cached}
    return usage


def _text(piece: Piece) -> str:
    if piece.delta is not None:
        return piece.delta.content or ""
    return piece.text or ""
