"""Conversations of several turns that begin with the same system prompt, as callers have them."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import aiohttp

from scheduler.emulator.blocks import BLOCK_TOKENS

from .caller import Heard, call, chat_body, headers_of
from .prompts import text_of
from .replay import CALL_S, LEAST_ANSWER, Made, Planned, Punctuality, beating

# A caller reads the answer for so long at least before asking on.
READING_S = 0.5
MOST_ANSWER = 400


@dataclass(frozen=True, slots=True)
class Talk:
    """How conversations go: so many of ``turns`` each, a share of them in P0; sizes are mean
    tokens; turns come about ``pause_s`` apart, and the conversations begin within ``begin_s``."""

    conversations: int
    turns: int
    urgent: float
    system: int
    question: int
    answer: int
    pause_s: float
    begin_s: float
    cv: float = 0.6


@dataclass(frozen=True, slots=True)
class Turn:
    """A question of so many tokens, asked ``at`` seconds from the start, and its answer's."""

    at: float
    question: int
    answer: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """One conversation as planned."""

    name: str
    lane: int
    business: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """A conversation as it went: the calls made, up to the first that failed."""

    planned: Conversation
    made: list[Made]

    def cacheable(self, talk: Talk) -> int:
        """Prompt tokens that would be found if everything said before, by anybody, were kept
        where it is asked for: whole blocks of the last turn's prompt and answer, and of the
        system prompt."""
        # Its role and its end are tokens too.
        found = (talk.system + 2) // BLOCK_TOKENS * BLOCK_TOKENS
        for before, after in pairwise(each.heard.usage for each in self.made):
            # The end of an answer is a token of its own, and is not part of the next prompt.
            said = before.prompt_tokens + before.completion_tokens - 1
            found += min(said, after.prompt_tokens - 1) // BLOCK_TOKENS * BLOCK_TOKENS
        return found


def conversations(talk: Talk, businesses: Sequence[str], seed: int) -> list[Conversation]:
    """All of them; the first of the two ``businesses`` is the urgent one."""
    found = []
    rng = Random(f"{seed}/talk")
    sigma = math.sqrt(math.log1p(talk.cv**2))

    def size(mean: int) -> int:
        return max(LEAST_ANSWER, round(rng.lognormvariate(math.log(mean) - sigma**2 / 2, sigma)))

    for number in range(talk.conversations):
        urgent = rng.random() < talk.urgent
        at = rng.random() * talk.begin_s
        turns = []
        for _ in range(talk.turns):
            turns.append(Turn(at, size(talk.question), min(size(talk.answer), MOST_ANSWER)))
            at += rng.uniform(0.5, 1.5) * talk.pause_s
        lane = 0 if urgent else 1
        found.append(Conversation(f"{seed}/{number}", lane, businesses[lane], tuple(turns)))
    return found


async def converse(
    url: str, model: str, talk: Talk, planned: Sequence[Conversation], keys: dict[str, str]
) -> tuple[list[Held], Punctuality]:
    """Hold the conversations at a gateway. A turn comes at its moment, or when the answer before
    it has been read; what was said so far goes along, word for word."""
    system = {"role": "system", "content": text_of("system", talk.system)}
    timeout = aiohttp.ClientTimeout(total=CALL_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        began = time.monotonic()

        async def hold(each: Conversation) -> Held:
            held, messages, ready = Held(each, []), [system], 0.0
            for number, turn in enumerate(each.turns):
                due = max(turn.at, ready)
                question = text_of(f"{each.name}/{number}", turn.question)
                messages = [*messages, {"role": "user", "content": question}]
                body = chat_body(model, messages, answer_tokens=turn.answer, max_tokens=MOST_ANSWER)
                await asyncio.sleep(began + due - time.monotonic())
                late = time.monotonic() - began - due
                headers = headers_of(keys.get(each.business, "none"))
                heard: Heard = await call(session, f"{url}/v1/chat/completions", body, headers)
                held.made.append(Made(Planned(due, each.lane, each.business, body), late, heard))
                if not heard.whole:
                    break
                messages.append({"role": "assistant", "content": heard.text})
                ready = time.monotonic() - began + READING_S
            return held

        async with beating() as punctuality:
            found = await asyncio.gather(*map(hold, planned))
    punctuality.sent = [made.late_s for held in found for made in held.made]
    return found, punctuality
