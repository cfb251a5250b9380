"""C07: each engine is told urgency in its own direction, whatever the caller wrote."""

from collections.abc import Mapping

import msgspec
import pytest

from scheduler.engines import ENGINES, engine

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .stub import Stub, stub

# A key of each lane and the level it comes to without a word about it.
CLASSES = {URGENT_KEY: 0, KEY: 3, LOW_KEY: 8}

# What a caller may write into the body.
OWN: list[dict[str, object]] = [{}, {"priority": -100}, {"priority": 0}, {"priority": None}]


async def ask(running: Gate, key: str, own: Mapping[str, object], **headers: str) -> int:
    """One call with fields of the caller's own; returns the level it was given."""
    body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], **own}
    answer = await running.client.post(
        "/v1/chat/completions", json=body, headers={**running.headers(key), **headers}
    )
    assert answer.status_code == 200
    return int(answer.headers["x-priority-level"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("vllm", {0: 0, 3: 3, 8: 8, 9: 9}),
        ("sglang", {0: 9, 3: 6, 8: 1, 9: 0}),
    ],
)
@pytest.mark.parametrize("own", OWN)
async def test_c07_the_number_is_always_sent_and_always_ours(
    name: str, expected: Mapping[int, int], own: dict[str, object]
) -> None:
    async with stub() as server:
        facts = replica(server.url, engine=name, engine_priority=True)
        async with gate(furnished(facts)) as running:
            for key, level in CLASSES.items():
                assert await ask(running, key, own) == level
                assert server.seen[-1].json["priority"] == expected[level]
            # The least urgent of all is a number like any other on SGLang: nought, and sent.
            assert await ask(running, LOW_KEY, own, priority="9") == 9
            assert server.seen[-1].json["priority"] == expected[9]


@pytest.mark.parametrize("name", [kind for kind in ENGINES if kind != "oip"])
async def test_c07_without_engine_priority_none_is_sent(name: str) -> None:
    """A stock vLLM refuses a value that is not 0; the caller's own never goes through."""
    async with stub() as server:
        facts = replica(server.url, engine=name, engine_priority=False)
        async with gate(furnished(facts)) as running:
            for own in OWN:
                await ask(running, KEY, own)
                assert "priority" not in server.seen[-1].json


@pytest.mark.parametrize("name", ["openai", "llamacpp", "tgi"])
async def test_engines_without_priorities_get_none(name: str) -> None:
    async with stub() as server:
        facts = replica(server.url, engine=name, engine_priority=True)
        async with gate(furnished(facts)) as running:
            await ask(running, KEY, {"priority": 5})
            assert "priority" not in server.seen[-1].json


async def test_a_mixed_fleet_is_told_each_in_its_way() -> None:
    async with stub() as first, stub() as second:
        fleet = [
            replica(first.url, name="a", engine="vllm", engine_priority=True, slots=1),
            replica(second.url, name="b", engine="sglang", engine_priority=True, slots=1),
        ]
        async with gate(furnished(*fleet)) as running:
            for _ in range(12):
                await ask(running, URGENT_KEY, {})

            def told(server: Stub) -> set[object]:
                return {seen.json["priority"] for seen in server.seen}

            assert told(first) <= {0}
            assert told(second) <= {9}


@pytest.mark.parametrize(("name", "least", "most"), [("vllm", 0, 9), ("sglang", 0, 9)])
def test_numbers_are_bounded_and_in_order(name: str, least: int, most: int) -> None:
    numbers = [engine(name).priority(level) for level in range(10)]
    assert {least, most} <= set(numbers)
    assert sorted(numbers, key=lambda n: n or 0) in (numbers, numbers[::-1])


def raw(**fields: object) -> dict[str, msgspec.Raw]:
    decoded = msgspec.json.decode(msgspec.json.encode(fields), type=dict[str, msgspec.Raw])
    return dict(decoded)


def parameters(changes: dict[str, object]) -> dict[str, object]:
    decoded = msgspec.json.decode(msgspec.json.encode(changes["parameters"]), type=dict)
    return dict(decoded)


def oip(level: int | None, **fields: object) -> dict[str, object]:
    return engine("oip").changes(raw(**fields), served="m", public="m", level=level)


@pytest.mark.parametrize("level", range(10))
def test_triton_begins_at_one_and_never_gets_its_default(level: int) -> None:
    assert parameters(oip(level)) == {"priority": level + 1}


def test_triton_s_other_parameters_stay() -> None:
    given = {"timeout": 100, "priority": 1, "sequence_id": 9007199254740993}
    assert parameters(oip(4, parameters=given)) == {
        "timeout": 100,
        "priority": 5,
        "sequence_id": 9007199254740993,
    }
    assert parameters(oip(None, parameters=given)) == {
        "timeout": 100,
        "sequence_id": 9007199254740993,
    }
    assert oip(None, parameters={"timeout": 1}) == {}
    assert oip(None) == {}
    assert oip(4, parameters="odd") == {}
