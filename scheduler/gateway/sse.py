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
CONTENT = re.compile(rb'"(?:content|text|reasoning|reasoning_content|arguments)"\s*:\s*"(?!")')
FINISH = re.compile(rb'"finish_reason"\s*:\s*"')
DONE = b"[DONE]"


class EventTooLongError(Exception):
    """The engine sent an event of more than MOST_EVENT_BYTES."""


def data_of(event: bytes) -> bytes:
    """The payload of an event: its data lines joined, b"" for comments and the like."""
    if event.startswith(b"data: ") and event.count(b"data:") == 1:
        return event[6:].strip()
    lines = DATA.findall(event.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))
    return b"\n".join(lines).strip()


class Tap:
    """One attempt's stream. ``tokens`` counts events with content: a token each, on every
    engine we know, and the count to fall back on where no usage is reported. ``done`` says
    that [DONE] or an error came, and nothing behind it counts."""

    __slots__ = (
        "_closing",
        "_hold",
        "_last",
        "_rename",
        "_show_usage",
        "done",
        "error",
        "tokens",
        "usage",
    )

    def __init__(
        self, usage: Usage, *, show_usage: bool, rename: Callable[[bytes], bytes] | None
    ) -> None:
        self.usage = usage
        self.tokens = 0
        self.done = False
        self.error: bytes | None = None
        self._show_usage = show_usage
        self._rename = rename
        self._hold = bytearray()
        self._last = b""
        self._closing = False

    @property
    def seen(self) -> int:
        """Tokens that the engine has made so far, of whatever kind."""
        return self.tokens

    @property
    def complete(self) -> bool:
        """Whether the answer came to its end: [DONE], a finish reason, or final usage."""
        return self.done or self._closing or FINISH.search(self._last) is not None

    def feed(self, chunk: bytes) -> bytes:
        """Take bytes as they came; return those of complete events that may go on.

        Raises EventTooLongError. After an error frame or [DONE] nothing more comes out.
        """
        hold = self._hold
        if not hold and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            return self._pass(chunk)
        # A separator may have begun in what was held; nothing before that needs a second look.
        start = max(0, len(hold) - 3)
        hold += chunk
        cut = 0
        for match in END.finditer(hold, start):
            cut = match.end()
        if len(hold) - cut > MOST_EVENT_BYTES:
            raise EventTooLongError
        if not cut:
            return b""
        whole = bytes(hold[:cut])
        del hold[:cut]
        return self._pass(whole)

    def finish(self) -> bytes:
        """The stream has ended. An event that lacks nothing but its blank line is whole."""
        rest = bytes(self._hold).rstrip(b"\r\n")
        self._hold.clear()
        payload = data_of(rest)
        if not payload or not (payload == DONE or _is_json(payload)):
            return b""
        return self._pass(rest + b"\n\n")

    def _pass(self, whole: bytes) -> bytes:
        if self.done:
            return b""
        if b'"usage"' in whole or b'error"' in whole or DONE in whole or b"\r" in whole:
            whole = self._each(whole)
        else:
            self.tokens += len(CONTENT.findall(whole))
        if b"data:" in whole:
            self._last = whole
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
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
            return True
        self.error = answer.failure(payload)
        if self.error is not None:
            self.done = True
            return False
        self.usage.take(answer.usage)
        if answer.choices:
            self.tokens += len(CONTENT.findall(payload))
        if answer.usage is None or answer.choices != []:
            return True
        self._closing = True
        return self._show_usage


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
