"""One streamed chat call as its caller has it: when the first of the answer came, and whether
all of it did."""

import time
from dataclasses import dataclass, field
from http import HTTPStatus

import aiohttp
import msgspec

EVENT_END = b"\n\n"
DATA = b"data: "
DONE = b"[DONE]"


class Details(msgspec.Struct):
    """A part of ``usage``."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Tokens of a whole call."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None


class Delta(msgspec.Struct):
    """What is new in an event."""

    content: str | None = None


class Choice(msgspec.Struct):
    """The one answer."""

    delta: Delta = msgspec.field(default_factory=Delta)
    finish_reason: str | None = None


class Fault(msgspec.Struct):
    """What a stream that has begun ends with when it fails."""

    code: str | int | None = None
    message: str = ""


class Event(msgspec.Struct):
    """One event of the stream."""

    choices: list[Choice] = []
    usage: Usage | None = None
    error: Fault | None = None


DECODER = msgspec.json.Decoder(Event)


@dataclass(slots=True)
class Heard:
    """What came of a call. ``first_s`` is from sending to the first text (None: there was none),
    ``took_s`` to the end. ``whole``: the stream ended as it should, with one finish reason.
    ``reason`` says why it did not; ``lane`` is where the gateway says that it ran, if it does."""

    first_s: float | None = None
    took_s: float = 0.0
    whole: bool = False
    reason: str = ""
    lane: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)

    @property
    def cached(self) -> int:
        """Prompt tokens that the card found in its prefix cache, by the answer's own word."""
        details = self.usage.prompt_tokens_details
        return (details.cached_tokens or 0) if details is not None else 0


class Listener:
    """Takes a stream in, piece by piece."""

    def __init__(self, heard: Heard) -> None:
        self._heard = heard
        self._rest = b""
        self._texts: list[str] = []
        self._finishes = 0
        self._done = False

    def take(self, data: bytes, since_s: float) -> None:
        """Bytes that came ``since_s`` seconds after the call was sent."""
        *events, self._rest = (self._rest + data).split(EVENT_END)
        for event in events:
            if event.startswith(DATA):
                self._one(event[len(DATA) :], since_s)

    def close(self) -> None:
        """The stream is over."""
        heard = self._heard
        heard.text = "".join(self._texts)
        heard.whole = self._done and self._finishes == 1 and not heard.reason
        if not heard.whole and not heard.reason:
            heard.reason = "broken off" if not self._done else f"{self._finishes} finish reasons"

    def _one(self, data: bytes, since_s: float) -> None:
        heard = self._heard
        if data == DONE:
            self._done = True
            return
        event = DECODER.decode(data)
        if event.error is not None:
            heard.reason = str(event.error.code or event.error.message or "error")
        if event.usage is not None:
            heard.usage = event.usage
        for choice in event.choices:
            if choice.delta.content:
                self._texts.append(choice.delta.content)
                if heard.first_s is None:
                    heard.first_s = since_s
            self._finishes += choice.finish_reason is not None


async def call(
    session: aiohttp.ClientSession, url: str, body: bytes, headers: dict[str, str]
) -> Heard:
    """Make the call and hear it to its end, whatever that is."""
    heard = Heard()
    listener = Listener(heard)
    begun = time.monotonic()
    try:
        async with session.post(url, data=body, headers=headers) as answer:
            heard.lane = answer.headers.get("X-Lane", "")
            if answer.status == HTTPStatus.OK:
                while data := await answer.content.readany():
                    listener.take(data, time.monotonic() - begun)
                listener.close()
            else:
                heard.reason = answer.headers.get("X-Fairlane-Reason", "") or str(answer.status)
    except (aiohttp.ClientError, TimeoutError) as error:
        heard.reason = type(error).__name__
    heard.took_s = time.monotonic() - begun
    return heard


def chat_body(
    model: str, messages: list[dict[str, str]], *, answer_tokens: int, max_tokens: int
) -> bytes:
    """A streamed chat call whose answer ends by itself after ``answer_tokens``, which the card
    alone is told; the gateway sees ``max_tokens``."""
    return msgspec.json.encode(
        {
            "model": model,
            "messages": messages,
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max_tokens,
            "vllm_xargs": {"answer_tokens": answer_tokens},
        }
    )


def headers_of(key: str) -> dict[str, str]:
    """What a caller with this key sends along."""
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
