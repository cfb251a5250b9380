"""Public model names in the place of the ones that replicas know."""

import json
import re
from collections.abc import Callable
from functools import lru_cache

import msgspec


def _spellings(name: str) -> tuple[bytes, ...]:
    """The ways in which JSON encoders write a name, quotes included."""
    plain = msgspec.json.encode(name)
    ascii_only = json.dumps(name).encode()
    slashed = [text.replace(b"/", b"\\/") for text in (plain, ascii_only)]
    return tuple(dict.fromkeys((plain, ascii_only, *slashed)))


@lru_cache(maxsize=256)
def model_renamer(served: str, public: str) -> Callable[[bytes], bytes] | None:
    """A function that puts the public name in the place of the served one as the value of
    any ``model`` key; None where the two are the same.

    Inside JSON text the quotes of a key are bare, inside a string they are escaped, so
    text that merely talks about a model is left alone.
    """
    if served == public:
        return None
    names = b"|".join(re.escape(spelling) for spelling in _spellings(served))
    pattern = re.compile(rb'("model"\s*:\s*)(?:' + names + rb")")
    replacement = msgspec.json.encode(public)

    def rename(data: bytes) -> bytes:
        return pattern.sub(lambda match: match.group(1) + replacement, data)

    return rename


def hide_in_text(text: str, served: str, public: str) -> str:
    """Put the public name wherever the served one stands as a word of its own."""
    if served == public or served not in text:
        return text
    return re.sub(rf"(?<!\w){re.escape(served)}(?!\w)", lambda _: public, text)


def hide(body: bytes, served: str, public: str) -> bytes:
    """The same in the strings of a JSON body, keys excepted. A body without the name, or
    that is no JSON, comes back as it is or with the name replaced in its text."""
    if served == public or not any(name[1:-1] in body for name in _spellings(served)):
        return body
    try:
        value: object = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return hide_in_text(body.decode("utf-8", "replace"), served, public).encode()
    return msgspec.json.encode(_walk(value, served, public))


def _walk(value: object, served: str, public: str) -> object:
    if isinstance(value, str):
        return hide_in_text(value, served, public)
    if isinstance(value, dict):
        return {key: _walk(item, served, public) for key, item in value.items()}
    if isinstance(value, list):
        return [_walk(item, served, public) for item in value]
    return value
