"""Request bodies: checked, read as far as Fairlane must, and changed only where it must.

Values stay raw JSON: what Fairlane does not know passes through byte for byte, numbers of
any size included. A body in which nothing has to change goes on as it came, unless a field
stands there twice: whoever reads it next must see each as it was checked.
"""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from .errors import GatewayError

Fields = dict[str, msgspec.Raw]
Value = TypeVar("Value")

# What each operation needs beside "model".
REQUIRED = {
    "chat": ("messages",),
    "text_completion": ("prompt",),
    "embeddings": ("input",),
}
COUNTS = ("max_tokens", "max_completion_tokens", "n", "best_of")
BYTES_PER_TOKEN = 4
_SPACE = b" \t\r\n"
# From the end of one value to the beginning of the next.
_KEY = re.compile(rb'[ \t\r\n]*[{,][ \t\r\n]*"([^"\\]*)"[ \t\r\n]*:[ \t\r\n]*')
OUTPUT_GUESS = 512

# Made once: a type is costly to prepare.
_decode_fields = msgspec.json.Decoder(Fields).decode
_text = msgspec.json.Decoder(str | None).decode
_flag = msgspec.json.Decoder(bool | None).decode
_number = msgspec.json.Decoder(int | float | None).decode
_object = msgspec.json.Decoder(Fields | None).decode
_encode = msgspec.json.Encoder().encode


class Payload(msgspec.Struct):
    """A checked body. Prompt tokens are an estimate, its bytes / 4; output tokens are the most
    that a choice may have, 0 where the caller sets no bound. ``model`` is the one that answers,
    ``asked`` the one in the body."""

    raw: bytes
    fields: Fields
    model: str
    stream: bool = False
    include_usage: bool = False
    running_usage: bool = False
    service_tier: str = ""
    prompt_tokens: int = 0
    output_tokens: int = 0
    choices: int = 1
    keys: frozenset[str] = frozenset()
    asked: str = ""

    @property
    def tokens(self) -> int:
        """Tokens to reckon with before anything is known: prompt and output of all choices."""
        return self.prompt_tokens + (self.output_tokens or OUTPUT_GUESS) * self.choices

    def rewritten(self, changes: dict[str, Any], *, without: tuple[str, ...] = ()) -> bytes:
        """The body with some top-level fields set and some left out; the values of the rest
        untouched.

        A key given twice is sent once, as the last value: whoever reads it next must not
        see another value than the one that was checked, reserved or decided by.
        """
        kept = {name: value for name, value in self.fields.items() if name not in without}
        if len(kept) == len(self.fields) and not changes and self._unambiguous():
            return self.raw
        return _encode(kept | changes)

    def _unambiguous(self) -> bool:
        """Whether every reader sees the same fields: each key stands in the body once, and in plain
        letters."""
        at = 0
        for name, value in self.fields.items():
            found = _KEY.match(self.raw, at)
            if found is None or found[1] != name.encode():
                return False
            at = found.end() + memoryview(value).nbytes
            if name in COUNTS and self.raw[found.end() : at] != bytes(value):
                return False
        return self.raw[at:].strip(_SPACE) == b"}"


def invalid(message: str, param: str | None = None) -> GatewayError:
    """A 400 that names the field."""
    return GatewayError("invalid_request", message, param=param)


def is_null(raw: msgspec.Raw) -> bool:
    """Whether a raw value is JSON's null."""
    return memoryview(raw).nbytes == 4 and bytes(raw) == b"null"


def _value(
    fields: Fields, name: str, read: Callable[[msgspec.Raw], Value | None], what: str
) -> Value | None:
    """A field as its reader takes it; None where absent or null."""
    raw = fields.get(name)
    if raw is None:
        return None
    try:
        return read(raw)
    except (msgspec.ValidationError, msgspec.DecodeError):
        raise invalid(f"'{name}' must be {what}.", name) from None


def _count(fields: Fields, name: str) -> int | None:
    """A whole number. Some clients write it as 16.0, which not every engine takes: that is written
    anew."""
    value = _value(fields, name, _number, "a whole number")
    if value is None:
        return None
    if value != value // 1:
        raise invalid(f"'{name}' must be a whole number.", name)
    if value < 0:
        raise invalid(f"'{name}' must not be negative.", name)
    if isinstance(value, float):
        value = int(value)
        fields[name] = msgspec.Raw(_encode(value))
    return value


def parse(body: bytes, operation: str) -> Payload:
    """Check a JSON body for one operation.

    Raises GatewayError (400) naming what is wrong; unknown fields are nobody's business.
    """
    try:
        if not body.isascii():
            # Values are not looked at by the decoder, and engines answer 400 or 500.
            body.decode()
        fields = _decode_fields(body)
    except msgspec.ValidationError:
        raise invalid("The body must be a JSON object.") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise invalid(f"The body is not valid JSON: {reason}") from None
    model = _value(fields, "model", _text, "a string")
    if not model:
        raise invalid("You must provide a 'model'.", "model")
    prompt = 0
    for name in REQUIRED[operation]:
        given = fields.get(name)
        if given is None or is_null(given):
            raise invalid(f"You must provide '{name}'.", name)
        prompt += memoryview(given).nbytes
    if operation == "chat" and memoryview(fields["messages"])[0] != ord("["):
        raise invalid("'messages' must be an array.", "messages")
    counts = {name: _count(fields, name) for name in COUNTS if name in fields}
    options = _value(fields, "stream_options", _object, "an object") or {}
    output = counts.get("max_completion_tokens") or counts.get("max_tokens")
    return Payload(
        raw=body,
        fields=fields,
        model=model,
        stream=bool(_value(fields, "stream", _flag, "true or false")) and operation != "embeddings",
        include_usage=bool(_value(options, "include_usage", _flag, "true or false")),
        running_usage=bytes(options.get("continuous_usage_stats", b"")) == b"true",
        service_tier=_value(fields, "service_tier", _text, "a string") or "",
        prompt_tokens=max(1, prompt // BYTES_PER_TOKEN),
        output_tokens=output or 0,
        choices=max(1, counts.get("n") or 1, counts.get("best_of") or 1),
        keys=frozenset(fields),
        asked=model,
    )
