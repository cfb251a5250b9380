"""A stream made of several attempts, event by event, however the network cuts it."""

import json
from typing import Any

import pytest

from scheduler.gateway.naming import model_renamer
from scheduler.gateway.resumable import ResumableTap
from scheduler.gateway.seam import Seam
from scheduler.gateway.transcript import Transcript
from scheduler.gateway.usage import Usage

DONE = b"data: [DONE]\n\n"
Json = dict[str, Any]


def event(body: Json) -> bytes:
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


def chunk(content: str | None = None, *, id: str = "a1", **more: Any) -> bytes:
    """A chat chunk of the engine; ``more`` are the choice's fields, timings the chunk's."""
    delta: Json = {} if content is None else {"content": content}
    if more.pop("role", False):
        delta["role"] = "assistant"
    body: Json = {"id": id, "object": "chat.completion.chunk", "created": 7, "model": "served"}
    timings = more.pop("timings", None)
    body["choices"] = [{"index": 0, "delta": delta, "finish_reason": None, **more}]
    if timings is not None:
        body["timings"] = timings
    return event(body)


def completion(said: str, *, id: str = "b2", finish: str | None = None, **more: Any) -> bytes:
    body = {"id": id, "object": "text_completion", "created": 9, "model": "served"}
    choice = {"index": 0, "text": said, "finish_reason": finish, **more}
    return event({**body, "choices": [choice]})


def usage(prompt: int, said: int, cached: int = 0) -> bytes:
    figures = {"prompt_tokens": prompt, "completion_tokens": said}
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return event({"id": "x", "model": "served", "choices": [], "usage": {**figures, **details}})


def tap(
    transcript: Transcript, *, strip: bool = True, show: bool = True, **more: Any
) -> ResumableTap:
    """The next attempt's tap."""
    transcript.pause()
    seam = None
    if transcript.tokens:
        stops = more.get("stops", ())
        seam = Seam(transcript.whole(), stops=stops, echoes=more.get("echoes", True))
    return ResumableTap(
        Usage(),
        transcript,
        show_usage=show,
        rename=model_renamer("served", "public"),
        public="public",
        chat=more.get("chat", True),
        seam=seam,
        strip=strip,
        strip_usage=more.get("strip_usage", False),
        running_usage=more.get("running_usage", False),
    )


def shown(body: bytes) -> list[Json]:
    return [json.loads(e[6:]) for e in body.split(b"\n\n") if e and e != DONE.strip()]


def text(body: bytes) -> str:
    return "".join(
        piece["delta"].get("content") or "" for one in shown(body) for piece in one["choices"]
    )


def test_the_first_attempt_passes_as_it_came_but_for_ids_and_names() -> None:
    transcript = Transcript()
    first = tap(transcript)
    body = first.feed(
        chunk("", role=True, prompt_token_ids=[1, 2], token_ids=None)
        + chunk("你", token_ids=[5, 6])
        + chunk("好", token_ids=[7])
    )
    assert b"token_ids" not in body
    assert [one["model"] for one in shown(body)] == ["public"] * 3
    assert text(body) == "你好"
    assert transcript.prompt_ids == [1, 2]
    assert (transcript.ids, transcript.tokens, transcript.id) == ([5, 6, 7], 3, "a1")
    assert not first.complete


def test_ids_that_the_caller_asked_for_stay() -> None:
    body = tap(Transcript(), strip=False).feed(chunk("x", token_ids=[5], prompt_token_ids=[1]))
    assert shown(body)[0]["choices"][0]["token_ids"] == [5]


def test_what_looks_like_ids_in_a_text_stays() -> None:
    said = 'so ,"token_ids":[1,2] and ,"timings":{"x":1} are words'
    body = tap(Transcript()).feed(chunk(said, token_ids=[5]))
    assert text(body) == said
    assert "token_ids" not in shown(body)[0]["choices"][0]


def test_timings_count_tokens_and_tell_of_the_prompt() -> None:
    transcript = Transcript()
    timings = {"cache_n": 4, "prompt_n": 6, "predicted_n": 3, "predicted_ms": 1.5}
    first = tap(transcript)
    body = first.feed(chunk("🎉", timings=timings))
    assert b"timings" not in body
    assert (transcript.tokens, transcript.prompt_tokens, transcript.cached_tokens) == (3, 10, 4)
    assert first.worked == 6
    second = tap(transcript)
    second.feed(chunk("🎊", id="b", timings={"cache_n": 12, "prompt_n": 1, "predicted_n": 3}))
    assert (transcript.tokens, second.tokens, second.worked) == (6, 3, 1)
    assert transcript.prompt_tokens == 10


@pytest.mark.parametrize("as_completion", [False, True])
def test_a_later_attempt_goes_on_under_the_first_ones_head(as_completion: bool) -> None:
    transcript = Transcript()
    out = tap(transcript).feed(
        chunk("", role=True, prompt_token_ids=[1]) + chunk("Hel", token_ids=[2])
    )
    second = tap(transcript)
    if as_completion:
        parts = [completion("lo", token_ids=[3]), completion("", finish="stop", token_ids=[9])]
    else:
        parts = [
            chunk("", id="b2", role=True),
            chunk("lo", id="b2"),
            chunk(None, id="b2", finish_reason="stop"),
        ]
    out += second.feed(b"".join([*parts, usage(3, 2, 2), DONE]))
    assert out.endswith(DONE)
    assert out.count(b"[DONE]") == 1
    *chunks, last = shown(out)
    assert {one["id"] for one in (*chunks, last)} == {"a1"}
    assert {one["created"] for one in (*chunks, last)} == {7}
    assert {one["model"] for one in (*chunks, last)} == {"public"}
    assert {one["object"] for one in chunks} == {"chat.completion.chunk"}
    assert [
        p["delta"]["role"] for one in chunks for p in one["choices"] if "role" in p["delta"]
    ] == ["assistant"]
    assert text(out) == "Hello"
    assert [p["finish_reason"] for one in chunks for p in one["choices"]] == [
        None,
        None,
        None,
        "stop",
    ]
    assert last["usage"] == {
        "prompt_tokens": 2,
        "completion_tokens": 3,
        "total_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 2},
    }
    assert second.complete


def test_usage_is_not_shown_to_who_did_not_ask() -> None:
    transcript = Transcript()
    tap(transcript, show=False).feed(chunk("x"))
    second = tap(transcript, show=False)
    out = second.feed(chunk("y", id="b") + usage(5, 1) + DONE)
    assert b"usage" not in out
    assert second.usage.completion == 1


def test_an_echo_is_swallowed_at_the_seam() -> None:
    transcript = Transcript()
    out = tap(transcript).feed(chunk("The quick brown"))
    out += tap(transcript).feed(chunk("The quick brown fox", id="b") + chunk(" jumps", id="b"))
    assert text(out) == "The quick brown fox jumps"
    assert transcript.whole() == "The quick brown fox jumps"


def test_a_stop_string_across_the_seam_ends_it_in_form() -> None:
    transcript = Transcript()
    out = tap(transcript).feed(chunk("a S", token_ids=[1, 2], prompt_token_ids=[8, 9, 10]))
    second = tap(transcript, stops=("STOP",))
    out += second.feed(chunk("TOP and more", id="b") + chunk(" more", id="b"))
    out += second.closing()
    assert second.done
    assert second.complete
    assert text(out) == "a S"
    chunks = shown(out)
    assert [p["finish_reason"] for one in chunks for p in one["choices"]][-1] == "stop"
    assert chunks[-1]["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 2,
        "total_tokens": 5,
    }
    assert second.usage.reported
    assert out.endswith(DONE)
    assert out.count(b"[DONE]") == 1


def test_reasoning_binds() -> None:
    transcript = Transcript()
    delta = {"reasoning_content": "hm"}
    tap(transcript).feed(event({"id": "a", "choices": [{"index": 0, "delta": delta}]}))
    assert transcript.bound


def test_an_error_ends_the_attempt_and_is_not_passed_on() -> None:
    transcript = Transcript()
    first = tap(transcript)
    out = first.feed(chunk("x") + event({"error": {"message": "out of memory"}}) + chunk("y"))
    assert text(out) == "x"
    assert b"memory" not in out
    assert first.error is not None
    assert transcript.whole() == "x"


def test_comments_and_strange_events_pass() -> None:
    strange = b": ping\n\nevent: x\n\ndata: not json\n\n"
    assert tap(Transcript()).feed(strange) == strange


def test_any_cut_of_the_network_gives_the_same() -> None:
    """One byte at a time, within characters, separators and ids."""
    wire = [
        chunk("", role=True, prompt_token_ids=[1, 2])
        + chunk("你好🎉", token_ids=[5, 6, 7])
        + chunk("再", token_ids=[8]),
        completion("见", token_ids=[9])
        + completion("👋", finish="length", token_ids=[10, 11])
        + usage(6, 3)
        + DONE,
    ]

    def carried(size: int) -> bytes:
        transcript, out = Transcript(), b""
        for attempt in wire:
            each = tap(transcript)
            for at in range(0, len(attempt), size):
                out += each.feed(attempt[at : at + size])
            out += each.finish()
        assert transcript.ids == [5, 6, 7, 8, 9, 10, 11]
        return out

    whole = carried(10_000)
    assert text(whole) == "你好🎉再见👋"
    for size in (1, 2, 3, 5, 7, 64):
        assert carried(size) == whole


def test_events_with_carriage_returns() -> None:
    transcript = Transcript()
    out = tap(transcript).feed(chunk("a", token_ids=[1]).replace(b"\n", b"\r\n"))
    assert b"token_ids" not in out
    assert transcript.whole() == "a"


def running(said: str, prompt: int, tokens: int, *, role: bool = False) -> bytes:
    """A chunk that also says how many tokens there are by now."""
    body = json.loads(chunk(said, role=role)[6:])
    body["usage"] = {"prompt_tokens": prompt, "completion_tokens": tokens}
    return event(body)


def test_running_usage_counts_tokens() -> None:
    """A character of three tokens is one event; whoever did not ask sees no figures."""
    transcript = Transcript()
    first = tap(transcript, strip_usage=True)
    body = first.feed(running("", 9, 0, role=True) + running("🎉", 9, 3) + running(" a", 9, 4))
    assert b"usage" not in body
    assert text(body) == "🎉 a"
    assert (transcript.tokens, transcript.prompt_told, transcript.guessed) == (4, 9, False)
    second = tap(transcript, strip_usage=True)
    body = second.feed(running(" b", 13, 1) + running("🎊", 13, 4) + usage(13, 4) + DONE)
    assert transcript.tokens == 8
    assert not transcript.guessed
    (figures,) = [one["usage"] for one in shown(body) if "usage" in one]
    assert (figures["prompt_tokens"], figures["completion_tokens"]) == (9, 8)


def test_running_usage_that_was_asked_for_runs_on_across_the_seam() -> None:
    transcript = Transcript()
    body = tap(transcript, running_usage=True).feed(running("a", 9, 1) + running(" b", 9, 2))
    body += tap(transcript, running_usage=True).feed(running(" c", 11, 1) + running(" d", 11, 2))
    figures = [
        (u["prompt_tokens"], u["completion_tokens"]) for u in (x["usage"] for x in shown(body))
    ]
    assert figures == [(9, 1), (9, 2), (9, 3), (9, 4)]


def test_what_looks_like_usage_in_a_text_stays() -> None:
    said = 'so ,"usage":{"prompt_tokens":1} and ,"usage":null are words'
    body = tap(Transcript(), strip_usage=True).feed(running(said, 3, 9))
    assert text(body) == said
    assert "usage" not in shown(body)[0]


def test_events_without_any_count_are_a_guess() -> None:
    transcript = Transcript()
    tap(transcript).feed(chunk("🎉"))
    assert (transcript.tokens, transcript.guessed) == (1, True)


def test_ids_count_more_than_running_usage() -> None:
    """Else they could not be told apart from a text of which some ids are missing."""
    transcript = Transcript()
    body = json.loads(chunk("x", token_ids=[5])[6:])
    tap(transcript).feed(event({**body, "usage": {"prompt_tokens": 3, "completion_tokens": 2}}))
    assert (transcript.tokens, transcript.ids, transcript.guessed) == (1, [5], False)
