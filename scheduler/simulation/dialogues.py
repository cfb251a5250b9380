"""Conversations turn by turn: when each question comes, and what its prompt holds."""

from collections.abc import Callable, Iterator
from math import exp, log, log1p, sqrt
from random import Random

from .scenario import Arrivals, Conversations, Size


def turns(
    stream: Arrivals, talk: Conversations, rng: Random, until: float
) -> Iterator[tuple[float, int, int]]:
    """The moment (s), prompt and output tokens of each turn of one conversation, those after
    ``until`` (s) left out."""
    assert stream.prompt is not None
    assert stream.output is not None
    question, answer = tokens(stream.prompt, rng), tokens(stream.output, rng)
    think = lognormal(talk.think_s.mean, talk.think_s.cv, rng)
    first, last = talk.begin_s
    at = first + (last - first) * rng.random()
    prompt = talk.system_tokens
    for _ in range(tokens(talk.turns, rng)()):
        if at > until:
            return
        prompt += question()
        output = min(answer(), stream.max_tokens)
        yield at, prompt, output
        prompt += output
        at += output * talk.answer_ms_per_token / 1e3 + think()


def lognormal(mean: float, cv: float, rng: Random) -> Callable[[], float]:
    """Draws with that mean and coefficient of variation."""
    if not cv:
        return lambda: mean
    sigma = sqrt(log1p(cv * cv))
    mu, gauss = log(mean) - sigma * sigma / 2, rng.gauss
    return lambda: exp(mu + sigma * gauss(0.0, 1.0))


def tokens(size: Size | None, rng: Random) -> Callable[[], int]:
    """Draws whole numbers from 1 on; zeros where there is no size."""
    if size is None:
        return int
    draw = lognormal(size.mean, size.cv, rng)
    return lambda: max(1, round(draw()))
