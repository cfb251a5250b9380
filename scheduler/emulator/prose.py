"""Sentences for the answers: readable, a little varied, chosen by number alone."""

import re

MARKER = "[emulated]"

_ADJECTIVES = (
    "steady",
    "quiet",
    "careful",
    "patient",
    "bright",
    "narrow",
    "simple",
    "gentle",
    "plain",
    "small",
    "warm",
)
_NOUNS = (
    "team",
    "reader",
    "engine",
    "signal",
    "river",
    "library",
    "market",
    "garden",
    "station",
    "window",
    "morning",
    "plan",
    "question",
    "answer",
    "report",
    "bridge",
    "lantern",
    "letter",
    "harbour",
    "schedule",
)
_VERBS = (
    "keeps",
    "finds",
    "follows",
    "explains",
    "carries",
    "watches",
    "guides",
    "returns",
    "opens",
    "measures",
)
_TAILS = (
    "before the evening train leaves",
    "and the result stays easy to check",
    "because every step has a reason",
    "while the others wait for their turn",
    "so the next reader starts from solid ground",
    "without losing a single word",
    "and nobody has to ask twice",
    "as long as the numbers agree",
)
_FRAMES = (
    " The {a} {n} {v} the {m}, {t}.",
    " First, a {a} {n} {v} one {b} {m} at a time.",
    " In practice the {n} {v} the {a} {m} {t}.",
    " Think of a {a} {n}: it {v} the {m}, {t}.",
    " When the {n} is {a}, it {v} every {b} {m}.",
    " There is a {a} way: one {n} {v} the {b} {m} {t}.",
    " That is why the {n} and the {m} stay {a}.",
    " Step by step, the {n} {v} the {m} {t}.",
)
# Full-width punctuation is meant.
# ruff: noqa: RUF001
_CHINESE = (
    "紧急的请求先走，耐心的工作随后继续。",
    "每一步都有理由，结果容易核对。",
    "河水慢慢流过小桥，答案也一点一点出现。",
    "先问清楚，再动手，最后写下来。",
)
_EMOJI = (" 🚦", " 🙂", " ✅", " 👩‍💻", " 🌉", " 🇨🇳")
_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """Scatter ``value`` over 64 bits (the finaliser of splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def sentence(seed: int, index: int) -> str:
    """Sentence ``index`` of the text of ``seed``, with the space or break before it."""
    draw = mix(seed ^ mix(index))

    def pick(choices: tuple[str, ...]) -> str:
        nonlocal draw
        draw, chosen = draw // len(choices), draw % len(choices)
        return choices[chosen]

    if index % 6 == 4:
        return pick(_CHINESE)
    text = pick(_FRAMES).format(
        a=pick(_ADJECTIVES),
        n=pick(_NOUNS),
        v=pick(_VERBS),
        m=pick(_NOUNS),
        b=pick(_ADJECTIVES),
        t=pick(_TAILS),
    )
    if index % 5 == 3:
        text += pick(_EMOJI)
    return "\n\n" + text[1:] if index and index % 7 == 0 else text


def words() -> list[str]:
    """Every word the sentences use, each with and without a space before it, sorted."""
    source = " ".join((*_ADJECTIVES, *_NOUNS, *_VERBS, *_TAILS, *_FRAMES))
    plain = set(re.findall(r"[A-Za-z]{2,}", source))
    return sorted(plain | {f" {word}" for word in plain} | {" a"})
