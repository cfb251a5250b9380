"""Cuts secrets out of text that is about to be written down."""

import re
from collections.abc import Callable

CUT = "[redacted]"

# Each pattern keeps what says *which* secret stood there and cuts the secret itself.
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    # A header in any of the shapes that dumps of headers have: "Name: value",
    # 'name': 'value', (b'name', b'value').
    (
        re.compile(
            r"(?i)\b((?:proxy-)?authorization|x-api-key|api-key|x-tier-credential|(?:set-)?cookie)"
            r"(\\?[\"']?\s*[:=,]\s*b?\\?[\"']?)[^\"'\r\n\\)]+"
        ),
        rf"\1\2{CUT}",
    ),
    (re.compile(r"(?i)\b(bearer|basic)\s+(?!\[redacted\])[A-Za-z0-9._~+/=:-]{4,}"), rf"\1 {CUT}"),
    # Four characters of a key may be seen; anything longer is the key or most of it.
    (re.compile(r"fl_(live|mgmt)_[A-Za-z0-9_-]{5,}"), rf"fl_\1_{CUT}"),
    (re.compile(r"\bsk-[A-Za-z0-9_-]{12,}"), f"sk-{CUT}"),
    # Three base64url parts, the first the JSON object of a JWT header.
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.?[A-Za-z0-9_-]*"), CUT),
    # The password in an address.
    (re.compile(r"(://[^\s/:@]*):[^\s/@]+@"), rf"\1:{CUT}@"),
    # A SHA-256 in hexadecimal: how a database error would show a key's digest.
    (re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{64}(?![0-9A-Fa-f])"), CUT),
)

# Names of extra fields whose value is a secret or a caller's own text, whatever it looks like.
_SECRET_NAMES = re.compile(
    r"(?i)(secret|passw|pepper|authorization|cookie|credential$|api_?key|^key$|digest"
    r"|^token$|_token$|^prompt$|^messages$|^completion$|^content$|^body$)"
)


def redact(text: str) -> str:
    """``text`` without keys, bearer tokens, JWTs, passwords in addresses or key digests."""
    for pattern, replacement in _PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def redact_value(name: str, value: object) -> object:
    """``value`` of the extra field ``name``, made of JSON's own types and free of secrets."""
    if _SECRET_NAMES.search(name):
        return CUT
    return _walk(value, redact)


def _walk(value: object, clean: Callable[[str], str], depth: int = 0) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clean(value)
    if depth < 4:
        if isinstance(value, dict):
            return {
                str(key): CUT if _SECRET_NAMES.search(str(key)) else _walk(item, clean, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset):
            return [_walk(item, clean, depth + 1) for item in value]
    return clean(str(value))
