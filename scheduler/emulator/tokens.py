"""A tokenizer that needs no files: text to ids and back, exactly.

Ids: 0-15 special, 16-271 single bytes, from 1,000 whole words, from 2^20 Chinese characters,
from 2^28 up to four ASCII characters packed into one. Emoji and other characters are
single bytes, so one of them spans several tokens, as with real byte-level tokenizers.

A generated text, cut between two tokens, tokenizes to the ids it was generated from.
"""

import codecs
import re
from collections.abc import Iterable
from functools import lru_cache

from .prose import MARKER, words

END_OF_TEXT, SYSTEM, USER, ASSISTANT, TOOL, END_OF_TURN = range(6)
SPECIAL_NAMES = ("<|eot|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|end|>")
FIRST_BYTE = 16
MARKER_ID = 999
_FIRST_WORD = 1000
_FIRST_CHINESE = 1 << 20
_FIRST_PACKED = 1 << 28
_PACK = 4

_WORD_IDS = {word: _FIRST_WORD + index for index, word in enumerate(words())}
_WORD_BYTES = {index: word.encode() for word, index in _WORD_IDS.items()}
_PIECES = re.compile(
    rf"(?P<marker>{re.escape(MARKER)})"
    # Not NUL: a packed token would not remember how many of them it begins with.
    r"|(?P<ascii> ?[A-Za-z]+| ?[0-9]{1,3}|[!-/:-@\[-`{-~]{1,4}|[\x01-\x20\x7f]{1,4})"
    r"|(?P<chinese>[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef])"
    r"|(?P<other>.)",
    re.DOTALL,
)


def _ascii_ids(piece: str) -> list[int]:
    known = _WORD_IDS.get(piece)
    if known is not None:
        return [known]
    raw = piece.encode("ascii")
    return [
        _FIRST_PACKED + int.from_bytes(raw[at : at + _PACK], "big")
        for at in range(0, len(raw), _PACK)
    ]


def tokenize(text: str) -> list[int]:
    """The ids of ``text``. Lone surrogates, which have no UTF-8 form, count as U+FFFD."""
    ids: list[int] = []
    for match in _PIECES.finditer(text):
        piece = match.group()
        kind = match.lastgroup
        if kind == "ascii":
            ids += _ascii_ids(piece)
        elif kind == "chinese":
            ids.append(_FIRST_CHINESE + ord(piece))
        elif kind == "marker":
            ids.append(MARKER_ID)
        else:
            safe = piece.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            ids += [FIRST_BYTE + byte for byte in safe[:1].encode()]
    return ids


@lru_cache(maxsize=65536)
def token_bytes(token: int) -> bytes:
    """The UTF-8 bytes a token stands for; nothing for special and unknown ids."""
    if token >= _FIRST_PACKED:
        value = token - _FIRST_PACKED
        # A leading NUL would vanish from the number, so a packed NUL is kept as one byte.
        return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    if token >= _FIRST_CHINESE:
        return chr(token - _FIRST_CHINESE).encode("utf-8", "replace")
    if token == MARKER_ID:
        return MARKER.encode()
    if FIRST_BYTE <= token < FIRST_BYTE + 256:
        return bytes([token - FIRST_BYTE])
    return _WORD_BYTES.get(token, b"")


def is_special(token: int) -> bool:
    """Whether the token marks structure and has no text in answers."""
    return token < FIRST_BYTE


def detokenize(ids: Iterable[int], *, special: bool = False) -> str:
    """The text of ``ids``; with ``special`` the structure is shown as ``<|user|>`` and so on."""
    if not special:
        return b"".join(map(token_bytes, ids)).decode("utf-8", "replace")
    parts = [
        SPECIAL_NAMES[token].encode() if token < len(SPECIAL_NAMES) else token_bytes(token)
        for token in ids
    ]
    return b"".join(parts).decode("utf-8", "replace")


class Detokenizer:
    """Text of a growing answer: bytes of an unfinished character wait for the rest.

    It knows nothing of the prompt, so an answer that begins inside a character begins with
    U+FFFD: whoever continues an answer has to cut it between characters.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, token: int) -> str:
        """The text that ``token`` completes, often one word, sometimes nothing."""
        return self._decoder.decode(token_bytes(token))

    def finish(self) -> str:
        """What an answer cut inside a character still shows."""
        return self._decoder.decode(b"", final=True)
