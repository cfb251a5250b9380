"""Server-sent events on their way through: bytes pass untouched but for what must change.

A ``Tap`` takes network chunks as they come, cut anywhere, and gives back whole events.
It looks into events only for usage, errors and the model's name; fragments of text or tool
calls are never rebuilt.
"""

import re
from collections.abc import Callable

import msgspec

from .usage import Usage, read_answer

# One event may be this long; a longer one ends the stream with an error.
MOST_EVENT_BYTES = 8 * 1024 * 1024

END = re.compile(rb"\r\n\r\n|\n\n|\r\r(?!\n)|\n\r\n")
DATA = re.compile(rb"^data: ?(.*)$", re.MULTILINE)
CONTENT = re.compile(rb'"(?:content|text|reasoning_content)"\s*:\s*"(?!")')
FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
DONE = b"[DONE]"


class EventTooLongError(Exception):
    """The engine sent an event of more than MOST_EVENT_BYTES."""


def model_renamer(served: str, public: str) -> Callable[[bytes], bytes] | None:
    """A function that puts the public name in the place of the served one as the value of
    any ``model`` key; None where the two are the same.

    Inside JSON text the quotes of a key are bare, inside a string they are escaped, so
    text that merely talks about a model is left alone.
    """
    if served == public:
        return None
    plain = msgspec.json.encode(served)
    slashed = plain.replace(b"/", b"\\/")
    pattern = re.compile(
        rb'("model"\s*:\s*)(?:' + re.escape(plain) + rb"|" + re.escape(slashed) + rb")"
    )
    replacement = msgspec.json.encode(public)

    def rename(data: bytes) -> bytes:
        return pattern.sub(lambda match: match.group(1) + replacement, data)

    return rename


def data_of(event: bytes) -> bytes:
    """The payload of an event: its data lines joined, b"" for comments and the like."""
    if event.startswith(b"data: ") and event.count(b"data:") == 1:
        return event[6:].strip()
    lines = [line.rstrip(b"\r") for line in DATA.findall(event.replace(b"\r\n", b"\n"))]
    return b"\n".join(lines).strip()


class Tap:
    """One attempt's stream. ``tokens`` counts events with content: a token each, on every
    engine we know, and the count to fall back on where no usage is reported."""

    __slots__ = ("_hold", "_rename", "_show_usage", "done", "error", "tokens", "usage")

    def __init__(
        self, usage: Usage, *, show_usage: bool, rename: Callable[[bytes], bytes] | None
    ) -> None:
        self.usage = usage
        self.tokens = 0
        self.done = False
        self.error: bytes | None = None
        self._show_usage = show_usage
        self._rename = rename
        self._hold = b""

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes as they came; return those of complete events that may go on.

        Raises EventTooLongError. After an error frame or [DONE] nothing more comes out.
        """
        data = self._hold + chunk if self._hold else chunk
        if data.endswith(b"\n\n") and b"\r" not in data:
            self._hold = b""
            whole = data
        else:
            cut = 0
            for match in END.finditer(data, max(0, len(self._hold) - 3)):
                cut = match.end()
            self._hold = data[cut:]
            if len(self._hold) > MOST_EVENT_BYTES:
                raise EventTooLongError
            whole = data[:cut]
        return self._pass(whole) if whole else b""

    @property
    def leftover(self) -> bytes:
        """Bytes of an event that never ended."""
        return self._hold

    def _pass(self, whole: bytes) -> bytes:
        if self.done:
            return b""
        if b'"usage"' in whole or b'"error"' in whole or DONE in whole or b"\r" in whole:
            whole = self._each(whole)
        else:
            self.tokens += len(CONTENT.findall(whole))
        return self._rename(whole) if self._rename is not None else whole

    def _each(self, whole: bytes) -> bytes:
        kept, start = [], 0
        for match in END.finditer(whole):
            event = whole[start : match.end()]
            start = match.end()
            if self._look(event):
                kept.append(event)
            if self.done:
                break
        return b"".join(kept)

    def _look(self, event: bytes) -> bool:
        """Note what one event says; False if the caller must not see it."""
        payload = data_of(event)
        if not payload:
            return True
        if payload == DONE:
            self.done = True
            return True
        try:
            answer = read_answer(payload)
        except (msgspec.DecodeError, msgspec.ValidationError):
            return True
        if answer.error is not None and answer.error != b"null":
            self.error = bytes(answer.error)
            self.done = True
            return False
        self.usage.take(answer.usage)
        if answer.choices:
            self.tokens += len(CONTENT.findall(payload))
        return self._show_usage or not (answer.usage is not None and answer.choices == [])
