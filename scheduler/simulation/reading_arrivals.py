"""The streams of requests of a scenario."""

import re

from scheduler.core.policy import Problem
from scheduler.plain_data import Node

from .reading_tools import MOST, finish, items, keys
from .scenario import Arrivals, Burst, Conversations, Model, Size, Tenant

LEVELS = re.compile(r"uniform ([0-9])-([0-9])|classified")
BAND = re.compile(r"([0-9])-([0-9])")
REALTIME = ("high", "medium", "low")
MOST_TOKENS = 2**31 - 1
MOST_REQUESTS = 10**9
MOST_CONVERSATIONS = 10**6
MOST_SYSTEM_TOKENS = 10**6


def read_arrivals(
    node: Node, models: dict[str, Model], tenants: dict[str, Tenant], remarks: list[Problem]
) -> Arrivals:
    """One entry of ``arrivals``."""
    model = node.needed_choice("model", list(models))
    generative = model in models and models[model].facts.generative
    process = node.choice("process", "poisson", ("poisson", "gamma"))
    spread = node.number("cv", 1.0, 1e-3, 100)
    talk = node.child("conversations")
    question = node if talk is None else talk
    found = Arrivals(
        model=model,
        shares=_shares(node, tenants, remarks),
        rate=_rate(node),
        budgets=_budgets(node),
        cv=spread if process == "gamma" else None,
        bursts=tuple(_burst(item, remarks) for item in items(node, "burst")),
        levels=_levels(node),
        realtime=node.choice("realtime", None, REALTIME),
        offline=node.flag("offline", default=False),
        prompt=_size(
            question, "prompt_tokens" if talk is None else "user_tokens", generative, remarks
        ),
        output=_size(node, "output_tokens", generative, remarks),
        max_tokens=node.whole("max_tokens", MOST_TOKENS, 1, MOST_TOKENS),
        conversations=_conversations(node, talk, generative, remarks),
    )
    # The part of the whole that the stream's rate already reflects.
    node.plain("share")
    finish(node, remarks)
    return found


def _shares(
    node: Node, tenants: dict[str, Tenant], remarks: list[Problem]
) -> tuple[tuple[str, float], ...]:
    inner = node.child("businesses")
    if inner is None:
        node.note("businesses", "is missing: must be shares by business")
        return ()
    found = [(name, inner.number(name, 0.0, 0, MOST)) for name in keys(node, "businesses")]
    for name, _ in found:
        if name not in tenants:
            inner.note(name, "is none of businesses")
    total = sum(share for _, share in found)
    if not total:
        node.note("businesses", "must have shares above 0")
        return ()
    finish(inner, remarks)
    return tuple((name, share / total) for name, share in found)


def _rate(node: Node) -> tuple[tuple[float, float], ...]:
    value = node.plain("rate_qps")
    allowed = "a list of [seconds, requests per second], in order of time"
    if value is None:
        return ()
    found: list[tuple[float, float]] = []
    for point in value if isinstance(value, list) else [None]:
        pair = [
            float(item)
            for item in (point if isinstance(point, list) else [])
            if isinstance(item, int | float) and not isinstance(item, bool) and 0 <= item <= MOST
        ]
        if len(pair) != 2 or (found and pair[0] < found[-1][0]):
            node.refuse("rate_qps", allowed, value)
            return ()
        found.append((pair[0], pair[1]))
    return tuple(found)


def _burst(node: Node, remarks: list[Problem]) -> Burst:
    found = Burst(node.number("at_s", 0.0, 0, MOST), node.whole("count", 0, 0, MOST_REQUESTS))
    finish(node, remarks)
    return found


def _conversations(
    node: Node, talk: Node | None, generative: bool, remarks: list[Problem]
) -> Conversations | None:
    if talk is None:
        return None
    if not generative:
        node.note("conversations", "are for generative models only")
    for key in ("rate_qps", "burst", "process", "prompt_tokens"):
        if node.has(key):
            node.note(key, "has no place beside conversations, which say when and how much")
            node.plain(key)
    found = Conversations(
        count=talk.whole("count", 0, 0, MOST_CONVERSATIONS),
        begin_s=_span(talk, "begin_s"),
        turns=_size(talk, "turns", True, remarks) or Size(1, 0),
        think_s=_size(talk, "think_s", True, remarks, least=0.001) or Size(1, 0),
        system_tokens=talk.whole("system_tokens", 0, 0, MOST_SYSTEM_TOKENS),
        answer_ms_per_token=talk.number("answer_ms_per_token", 0.0, 0, MOST),
    )
    finish(talk, remarks)
    return found


def _span(node: Node, key: str) -> tuple[float, float]:
    value = node.plain(key)
    if isinstance(value, list) and len(value) == 2:
        first, last = value
        numbers = all(isinstance(at, int | float) and not isinstance(at, bool) for at in value)
        if numbers and 0 <= first <= last <= MOST:
            return float(first), float(last)
    node.refuse(key, "[seconds, seconds], in order of time", value)
    return 0.0, 0.0


def _levels(node: Node) -> tuple[int, int] | None:
    text = node.needed("level", LEVELS, '"classified", or "uniform 0-9" with levels of 0-9')
    match = LEVELS.fullmatch(text)
    if match is None or match[1] is None:
        return None
    least, most = int(match[1]), int(match[2])
    if least > most:
        node.refuse("level", "a range of levels in order", text)
    return least, most


def _budgets(node: Node) -> tuple[float | None, ...]:
    """The budget (ms) of each level 0-9."""
    value = node.plain("latency_budget_ms")
    if value is None:
        return (None,) * 10
    whole: dict[object, object] = value if isinstance(value, dict) else {"0-9": value}
    found: list[float | None] = [None] * 10
    for band, budget in whole.items():
        match = BAND.fullmatch(band) if isinstance(band, str) else None
        if match is None or isinstance(budget, bool):
            break
        if isinstance(budget, int | float) and budget > 0:
            for level in range(int(match[1]), int(match[2]) + 1):
                found[level] = float(budget)
        elif budget is not None:
            break
    else:
        return tuple(found)
    node.refuse("latency_budget_ms", 'ms, or ms by levels such as {"0-2": 100}', value)
    return (None,) * 10


def _size(
    node: Node, key: str, needed: bool, remarks: list[Problem], least: float = 1
) -> Size | None:
    inner = node.child(key)
    if inner is None:
        if needed:
            node.note(key, 'is missing: must be {"lognormal_mean", "cv"}')
        return None
    found = Size(inner.number("lognormal_mean", 1.0, least, MOST), inner.number("cv", 0.0, 0, 100))
    finish(inner, remarks)
    return found
