"""What a call's caller is said to have heard is what came."""

import msgspec
import pytest

from bench.caller import Heard, Listener, chat_body
from bench.conversations import Talk, conversations
from bench.prompts import message_of, text_of
from bench.replay import Punctuality, plan, replay
from bench.report import percentile
from bench.ways import Effort, warn_of_late
from scheduler.emulator.app import listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.emulator.settings import Settings
from scheduler.emulator.tokens import tokenize
from scheduler.simulation.scenario_file import load
from scheduler.simulation.workload import Workload

TEXT = b'data: {"choices":[{"index":0,"delta":{"content":"Yes"},"finish_reason":null}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}\n\n'
OPENING = b'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":40,"completion_tokens":2,'
    b'"prompt_tokens_details":{"cached_tokens":32}}}\n\n'
)
DONE = b"data: [DONE]\n\n"


def heard(*pieces: bytes) -> Heard:
    found = Heard()
    listener = Listener(found)
    for second, piece in enumerate(pieces):
        listener.take(piece, float(second))
    listener.close()
    return found


def test_the_first_token_is_the_first_text_however_the_stream_is_cut() -> None:
    whole = b": waiting\n\n" + OPENING + TEXT + END + USAGE + DONE
    for cut in range(1, len(whole)):
        found = heard(whole[:cut], whole[cut:])
        assert (found.text, found.whole, found.cached) == ("Yes", True, 32)
        # The text is there when its event is.
        assert found.first_s == (0.0 if cut >= whole.index(TEXT) + len(TEXT) else 1.0)


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ((OPENING, TEXT), "broken off"),
        ((OPENING, TEXT, DONE), "0 finish reasons"),
        ((OPENING, TEXT, END, TEXT, END, DONE), "2 finish reasons"),
        (
            (OPENING, TEXT, b'data: {"error":{"code":"queue_timeout","message":"x"}}\n\n'),
            "queue_timeout",
        ),
    ],
)
def test_an_answer_that_is_not_whole_has_a_reason(pieces: tuple[bytes, ...], reason: str) -> None:
    found = heard(*pieces)
    assert not found.whole
    assert found.reason == reason


def test_prompts_have_their_number_of_tokens_and_share_no_beginning() -> None:
    texts = {name: message_of(name, size) for name, size in (("a", 5), ("b", 40), ("c", 900))}
    assert [len(chat_prompt_ids([("user", text)])) for text in texts.values()] == [5, 40, 900]
    beginnings = {tuple(tokenize(text_of(f"{number}", 16))[:13]) for number in range(500)}
    assert len(beginnings) == 500


def test_a_plan_is_the_workload_that_everybody_meets() -> None:
    workload = Workload(load("even-cards").cut(4))
    calls = plan(workload)
    assert calls == plan(workload)
    assert [call.lane for call in calls] == list(workload.lane)
    assert {call.business for call in calls if call.lane == 0} <= {"b0", "b2", "b3", "b4", "b6"}


async def test_a_replay_keeps_to_its_times_and_the_cards_count_what_was_planned() -> None:
    workload = Workload(load("even-cards").cut(1))
    calls = plan(workload, speed=4.0)
    model = ServiceModel(slots=32, prefill_tokens_per_s=1e6, step_base_ms=1, kv_tokens=200_000)
    async with listen(Settings(service=model, models=("m0",), max_model_len=16_384)) as card:
        made, punctuality = await replay(card.url, calls, {})
        usages = [
            (each.heard.usage.prompt_tokens, each.heard.usage.completion_tokens) for each in made
        ]
        state = card.emulator.engine.counters
    assert len(made) == len(workload) == len(punctuality.sent) > 3
    assert all(each.heard.whole and each.late_s >= 0 for each in made)
    assert sorted(usages) == sorted(zip(workload.prompt, workload.output, strict=True))
    assert state.prompt_tokens == sum(workload.prompt)
    assert state.prefix_hits == 0


def test_an_answers_length_is_the_cards_affair() -> None:
    body = msgspec.json.decode(chat_body("m", [], answer_tokens=7, max_tokens=64))
    assert body["max_tokens"] == 64
    assert body["vllm_xargs"] == {"answer_tokens": 7}


def test_conversations_are_the_same_for_everybody_and_others_with_another_seed() -> None:
    talk = Talk(20, 4, 0.5, 100, 30, 20, 5.0, 10.0)
    first = conversations(talk, ("a", "b"), 1)
    assert first == conversations(talk, ("a", "b"), 1)
    assert first != conversations(talk, ("a", "b"), 2)
    assert {each.business for each in first if each.lane == 0} == {"a"}
    for each in first:
        times = [turn.at for turn in each.turns]
        assert times == sorted(times)


def test_percentiles_are_by_nearest_rank() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.0
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.95) == 4.0
    assert percentile([], 0.5) == 0.0


async def test_a_call_that_is_refused_is_told_and_does_not_stop_the_rest() -> None:
    workload = Workload(load("even-cards").cut(1))
    async with listen(Settings(models=("another",))) as card:
        made, _ = await replay(card.url, plan(workload, speed=4.0)[:3], {})
    assert [each.heard.reason for each in made] == ["404"] * 3


def test_figures_of_a_late_load_are_not_to_be_trusted(capsys: pytest.CaptureFixture[str]) -> None:
    prompt = Effort(0.1, 0.2, Punctuality([0.001] * 99, [0.002] * 99))
    late = Effort(0.1, 0.2, Punctuality([0.001] * 99, [0.002] * 97 + [0.3] * 3))
    warn_of_late([prompt, prompt])
    assert capsys.readouterr().out == ""
    warn_of_late([prompt, late])
    assert "1 of 2 rounds" in capsys.readouterr().out
