"""What may be continued, and how each engine is asked to."""

import json
from typing import Any

import pytest

from scheduler.engines import ENGINES, engine
from scheduler.engines.continuation import Continuation, Partial, less_tokens
from scheduler.gateway.payload import Payload, parse
from scheduler.gateway.story import Story
from scheduler.gateway.transcript import Transcript, continuable, stops_of
from scheduler.gateway.usage import Usage

USER = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "Hello 🎉"}


def chat(**more: object) -> Payload:
    body = {"model": "m", "messages": [USER], **more}
    return parse(json.dumps(body).encode(), "chat")


def text(**more: object) -> Payload:
    body = {"model": "m", "prompt": "Once", **more}
    return parse(json.dumps(body).encode(), "text_completion")


def asked(name: str, payload: Payload, operation: str, partial: Partial) -> dict[str, Any]:
    """The body that goes out, and its operation under "operation"."""
    found: Continuation = engine(name).continuation(payload.fields, operation, partial)
    body: dict[str, Any] = json.loads(payload.rewritten(found.changes, without=found.without))
    return {"operation": found.operation, **body}


@pytest.mark.parametrize(
    "more",
    [
        {"tools": []},
        {"tool_choice": "auto"},
        {"functions": []},
        {"response_format": {"type": "json_object"}},
        {"guided_json": {}},
        {"structured_outputs": {}},
        {"grammar": "root ::= x"},
        {"n": 2},
        {"best_of": 3},
        {"use_beam_search": True},
        {"logprobs": True},
        {"top_logprobs": 2},
        {"frequency_penalty": 0.5},
        {"presence_penalty": -1},
        {"presence_penalty": "much"},
        {"reasoning_effort": "low"},
        {"modalities": ["audio"]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "x", "input_audio": {}}]}]},
        {"messages": [USER, SAID]},
        {"messages": [USER, {"content": "x", "role": "assistant"}]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_goes_by_more_than_its_text_is_not_continued(more: dict[str, object]) -> None:
    assert not continuable(chat(**more), "chat")


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"tools": None, "logprobs": None, "response_format": None},
        {"n": 1, "frequency_penalty": 0, "presence_penalty": 0.0},
        {"stop": ["x"], "max_tokens": 5, "temperature": 0, "seed": 1},
        {"messages": [USER, SAID, USER]},
        {"messages": [{"role": "user", "content": 'say "role": "assistant" and "image_url":'}]},
    ],
    ids=lambda more: next(iter(more), "plain"),
)
def test_text_is(more: dict[str, object]) -> None:
    assert continuable(chat(**more), "chat")


def test_completions_are_continued_where_they_are_one_text() -> None:
    assert continuable(text(), "text_completion")
    for prompt in (["a", "b"], [1, 2, 3], [[1], [2]]):
        assert not continuable(text(prompt=prompt), "text_completion")
    assert not continuable(text(echo=True), "text_completion")
    assert not continuable(text(suffix="end"), "text_completion")


def test_stop_strings_in_both_forms() -> None:
    assert stops_of(chat()) == ()
    assert stops_of(chat(stop=None)) == ()
    assert stops_of(chat(stop="。")) == ("。",)
    assert stops_of(chat(stop=["a", "b"])) == ("a", "b")
    assert stops_of(chat(stop={"odd": 1})) == ()


PARTIAL = Partial("Hello 🎉", [], [], 3)
KNOWN = Partial("Hello 🎉", [1, 2], [7, 8, 9], 3)


@pytest.mark.parametrize("name", sorted(ENGINES.keys() - {"oip"}))
def test_chat_goes_on_from_its_text(name: str) -> None:
    body = asked(name, chat(max_tokens=10, stop="x", seed=4), "chat", PARTIAL)
    assert body["operation"] == "chat"
    assert body["messages"] == [USER, SAID]
    assert (body["max_tokens"], body["stop"], body["seed"]) == (7, "x", 4)
    marked = name in {"vllm", "sglang"}
    assert body.get("continue_final_message", False) is marked
    # vLLM refuses the one with the other; SGLang knows no such field.
    assert ("add_generation_prompt" in body) is (name == "vllm")


@pytest.mark.parametrize("name", sorted(ENGINES.keys() - {"oip"}))
def test_a_completion_goes_on_from_its_text(name: str) -> None:
    body = asked(name, text(max_tokens=4), "text_completion", PARTIAL)
    assert (body["operation"], body["prompt"]) == ("text_completion", "OnceHello 🎉")
    assert body["max_tokens"] == 1
    assert "messages" not in body


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_chat_goes_on_from_ids_where_they_are_known(name: str) -> None:
    given = chat(max_completion_tokens=10, parallel_tool_calls=True, temperature=0)
    body = asked(name, given, "chat", KNOWN)
    assert body == {
        "operation": "text_completion",
        "model": "m",
        "prompt": [1, 2, 7, 8, 9],
        "max_tokens": 7,
        "temperature": 0,
    }


def test_ids_that_lack_one_are_not_used() -> None:
    body = asked("vllm", chat(), "chat", Partial("Hello 🎉", [1, 2], [7, 8], 3))
    assert body["messages"] == [USER, SAID]


def test_which_engines_tell_what() -> None:
    told = {
        name: (adapter.tells("chat"), adapter.tells("text_completion"))
        for name, adapter in ENGINES.items()
    }
    assert told == {
        "openai": ("", ""),
        "llamacpp": ("timings_per_token",) * 2,
        "oip": ("", ""),
        "sglang": ("", "return_token_ids"),
        "tgi": ("", ""),
        "vllm": ("return_token_ids",) * 2,
    }


def test_bounds_are_reduced_by_what_exists() -> None:
    fields = chat(max_tokens=10, max_completion_tokens=3, min_tokens=2).fields
    assert less_tokens(fields, 4) == {
        "max_tokens": 6,
        "max_completion_tokens": 1,
        "min_tokens": 0,
    }
    assert less_tokens(chat(max_tokens=None).fields, 4) == {}
    assert less_tokens(chat().fields, 4) == {}


def test_tokens_count_when_their_text_is_out() -> None:
    """Of a character of three tokens the first two come without text; cut there, they are
    forgotten, and made again."""
    transcript = Transcript(model="m", prompt_ids=[1])
    transcript.add("Hi", [10])
    transcript.add("", [11])
    transcript.add("", [12])
    transcript.add("🎉", [13])
    transcript.add("", [14])
    assert (transcript.tokens, transcript.ids) == (4, [10, 11, 12, 13])
    transcript.pause()
    transcript.add("!", [15])
    assert transcript.partial("m") == Partial("Hi🎉!", [1], [10, 11, 12, 13, 15], 5)
    assert transcript.partial("another") == Partial("Hi🎉!", [], [], 5)


def test_tokens_are_counted_by_the_engine_or_one_a_text() -> None:
    transcript = Transcript()
    transcript.add("你", None, 3)
    transcript.add("", None, 5)
    assert transcript.tokens == 3
    transcript.add("好", None, 6)
    assert transcript.tokens == 6
    transcript.add("!", None)
    assert transcript.tokens == 7


def test_usage_has_the_prompt_once_and_all_that_was_said() -> None:
    transcript = Transcript()
    # The second attempt was asked with prompt and answer so far, 20 of them in the cache.
    whole = transcript.total(Usage(30, 20, 7, reported=True), 10)
    assert whole == Usage(20, 20, 17, reported=True)
    # Told by the first attempt, its figures of the prompt are the ones that count.
    transcript.prompt_tokens, transcript.cached_tokens = 19, 4
    assert transcript.total(Usage(30, 28, 7, reported=True), 10) == Usage(19, 4, 17, reported=True)
    nothing = Usage()
    assert transcript.total(nothing, 10) is nothing


def test_an_answer_that_has_all_its_tokens_is_not_to_be_stopped() -> None:
    """Going on would make one token too many."""
    story = Story((), most=2)
    said = []
    for token in (1, 2):
        story.transcript.add("a", [token])
        said.append(story.said_all)
    assert said == [False, True]
    boundless = Story(())
    boundless.transcript.add("a", [1])
    assert not boundless.said_all
