"""The answer as a pure function of the prompt, wherever the prompt already holds part of it."""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, count, islice, repeat, takewhile

from .prose import MARKER, mix, sentence
from .tokens import END_OF_TEXT, MARKER_ID, detokenize, is_special, tokenize

SHORTEST = 32
SPREAD = 224


def seed_of(prompt: Sequence[int]) -> int:
    """64 bits that stand for the prompt."""
    packed = array("I", (token & 0xFFFFFFFF for token in prompt)).tobytes()
    return int.from_bytes(hashlib.blake2b(packed, digest_size=8).digest(), "big")


def _target(seed: int) -> int:
    """Tokens after which the answer ends with its sentence."""
    return SHORTEST + mix(seed) % SPREAD


def _tokens(seed: int, target: int | None) -> Iterator[int]:
    """The answer; without a ``target`` it has no end."""
    yield MARKER_ID
    given = 1
    for index in count():
        if target is not None and given >= target:
            yield END_OF_TEXT
            return
        ids = tokenize(sentence(seed, index))
        given += len(ids)
        yield from ids


def split_prompt(ids: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """(prompt, answer so far). An answer so far begins with the marker (or a part of it, cut
    between characters), and nothing special follows it: a finished turn is prompt."""
    last = next((at for at in range(len(ids) - 1, -1, -1) if is_special(ids[at])), -1)
    for at in range(len(ids) - 1, last, -1):
        if ids[at] == MARKER_ID:
            return ids[:at], ids[at:]
    tail = ids[last + 1 :]
    if tail and len(tail) < len(MARKER) and MARKER.startswith(detokenize(tail)):
        return ids[: last + 1], tail
    return ids, []


def is_open(ids: Sequence[int]) -> bool:
    """Whether ``ids`` end inside a character."""
    return detokenize(ids[-4:]).endswith("\ufffd")


def _pass_over(tokens: Iterator[int], text: str) -> list[int] | None:
    """Take what ``text`` covers off ``tokens``. Gives the rest of a token that ``text`` ends
    within, or None where ``text`` is no beginning of the answer."""
    seen = ""
    pending: list[int] = []
    while len(seen) < len(text) or pending:
        token = next(tokens, None)
        if token is None:
            return None
        pending.append(token)
        if not is_open(pending):
            seen += detokenize(pending)
            pending = []
    return tokenize(seen[len(text) :]) if seen.startswith(text) else None


def continue_answer(
    ids: Sequence[int],
    *,
    ignore_eos: bool = False,
    min_tokens: int = 0,
    length: int | None = None,
) -> Iterator[int]:
    """The tokens that follow ``ids``, closed by end-of-text; endless with ``ignore_eos``. With
    ``length`` the whole answer has so many tokens, end-of-text among them.

    The answer so far is compared as text, so a continuation that was cut inside a word gets
    the rest of that word. One that is no part of the answer goes on by count of tokens, so
    that whatever went wrong before shows in the text.
    """
    prompt, so_far = split_prompt(ids)
    seed = seed_of(prompt)
    endless = ignore_eos or length is not None
    target = None if endless else max(_target(seed), min_tokens)
    tokens = _tokens(seed, target)
    split_word = _pass_over(tokens, detokenize(so_far)) if so_far else []
    if split_word is None:
        tokens, split_word = islice(_tokens(seed, target), len(so_far), None), []
    rest = chain(split_word, tokens)
    if length is not None:
        rest = chain(islice(rest, max(0, length - 1 - len(so_far))), repeat(END_OF_TEXT, 1))
    return chain(rest, repeat(END_OF_TEXT, 1))


def answer_length(prompt: Sequence[int]) -> int:
    """Tokens of the whole natural answer, the closing end-of-text included."""
    return len(expected_ids(prompt))


def expected_ids(prompt: Sequence[int], tokens: int | None = None) -> list[int]:
    """The answer to ``prompt``: whole, end-of-text included, or its first ``tokens`` tokens
    (beyond its natural end, what ``ignore_eos`` gives)."""
    if tokens is None:
        return [
            *takewhile(lambda token: token != END_OF_TEXT, continue_answer(prompt)),
            END_OF_TEXT,
        ]
    return list(islice(continue_answer(prompt, ignore_eos=True), tokens))


def expected_text(prompt: Sequence[int], tokens: int | None = None) -> str:
    """The text of ``expected_ids``."""
    return detokenize(expected_ids(prompt, tokens))
