"""Bodies, chunks and errors have vLLM's shape."""

import json
from typing import cast

import pytest

from scheduler.emulator.answers import expected_ids, expected_text
from scheduler.emulator.settings import DEFAULT_MODEL, Settings
from scheduler.emulator.tokens import detokenize, tokenize

from .servers import ASK, PROMPT, QUICK, Json, chat, content, named, served


def first_choice(chunk: Json) -> Json:
    return cast("list[Json]", chunk["choices"])[0]


async def test_a_chat_stream_names_the_role_then_gives_a_token_an_event() -> None:
    async with served() as server:
        chunks = await server.chunks(max_tokens=3, stream_options={"include_usage": True})
    role, *tokens, usage = chunks
    assert first_choice(role)["delta"] == {"role": "assistant", "content": ""}
    assert [first_choice(chunk)["finish_reason"] for chunk in tokens] == [None, None, "length"]
    assert content(tokens) == expected_text(PROMPT, 3)
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": len(PROMPT),
        "total_tokens": len(PROMPT) + 3,
        "completion_tokens": 3,
    }
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert not any("usage" in chunk for chunk in tokens)


async def test_the_last_token_of_a_natural_end_has_no_text() -> None:
    async with served() as server:
        *_, last = await server.chunks()
    assert first_choice(last)["finish_reason"] == "stop"
    assert first_choice(last)["delta"] == {"content": ""}


async def test_counts_in_every_chunk_when_asked_for() -> None:
    async with served() as server:
        options = {"include_usage": True, "continuous_usage_stats": True}
        chunks = await server.chunks(max_tokens=3, stream_options=options)
    counts = [cast("Json", chunk["usage"])["completion_tokens"] for chunk in chunks]
    assert counts == [1, 1, 2, 3, 3]


async def test_token_ids_are_returned_in_streams_and_whole() -> None:
    async with served() as server:
        plain = (await server.chat(max_tokens=5, return_token_ids=True)).json()
        chunks = await server.chunks(max_tokens=5, return_token_ids=True)
        text = await server.chunks(
            "/v1/completions", prompt=ASK, max_tokens=5, return_token_ids=True
        )
    assert plain["prompt_token_ids"] == chunks[0]["prompt_token_ids"] == PROMPT
    assert plain["choices"][0]["token_ids"] == expected_ids(PROMPT, 5)
    streamed = [cast("list[int]", first_choice(chunk)["token_ids"]) for chunk in chunks[1:]]
    assert [token for ids in streamed for token in ids] == expected_ids(PROMPT, 5)
    assert first_choice(text[0])["prompt_token_ids"] == tokenize(ASK)
    assert "prompt_token_ids" not in first_choice(text[1])


async def test_a_character_of_several_tokens_comes_with_its_last() -> None:
    async with served() as server:
        chunks = await server.chunks(max_tokens=600, ignore_eos=True, return_token_ids=True)
    texts = [str(cast("Json", first_choice(chunk)["delta"])["content"]) for chunk in chunks]
    assert "" in texts[1:]
    assert "".join(texts) == expected_text(PROMPT, 600)
    assert "\ufffd" not in "".join(texts)


async def test_the_callers_id_becomes_the_answers() -> None:
    async with served() as server:
        headers = {"X-Request-Id": "abc"}
        answer = await server.http.post("/v1/chat/completions", json=chat(), headers=headers)
        body = named({"prompt": ASK})
        text = await server.http.post("/v1/completions", json=body, headers=headers)
    assert answer.json()["id"] == "chatcmpl-abc"
    assert text.json()["id"] == "cmpl-abc"


async def test_several_answers_and_several_prompts() -> None:
    async with served() as server:
        two = (await server.chat(n=2, max_tokens=4)).json()
        body = named({"prompt": ["one", "two"], "max_tokens": 4})
        prompts = (await server.http.post("/v1/completions", json=body)).json()
        streamed = await server.chunks(n=2, max_tokens=4)
    assert [choice["index"] for choice in two["choices"]] == [0, 1]
    assert two["usage"]["prompt_tokens"] == len(PROMPT)
    assert two["usage"]["completion_tokens"] == 8
    expected = [expected_text(tokenize(text), 4) for text in ("one", "two")]
    assert [choice["text"] for choice in prompts["choices"]] == expected
    for index in (0, 1):
        mine = [chunk for chunk in streamed if first_choice(chunk)["index"] == index]
        assert content(mine) == expected_text(PROMPT, 4)


@pytest.mark.parametrize("keep", [True, False])
async def test_a_stop_string_ends_the_answer(keep: bool) -> None:
    words = expected_text(PROMPT).split(" ")
    stop = f"{words[3][-2:]} {words[4][:2]}"
    text = expected_text(PROMPT)
    cut = text[: text.index(stop) + (len(stop) if keep else 0)]
    async with served() as server:
        stops = ["absent", stop]
        plain = (await server.chat(stop=stops, include_stop_str_in_output=keep)).json()
        chunks = await server.chunks(stop=stops, include_stop_str_in_output=keep)
    assert plain["choices"][0]["message"]["content"] == cut
    assert plain["choices"][0]["finish_reason"] == "stop"
    assert plain["choices"][0]["stop_reason"] == stop
    assert content(chunks) == cut
    assert first_choice(chunks[-1])["stop_reason"] == stop
    assert server.emulator.engine.counters.finished == {"stop": 2, "length": 0, "abort": 0}


async def test_a_stop_token_ends_the_answer() -> None:
    ids = expected_ids(PROMPT, 5)
    async with served() as server:
        plain = (await server.chat(stop_token_ids=[ids[3]], return_token_ids=True)).json()
    assert plain["choices"][0]["token_ids"] == ids[:4]
    assert plain["choices"][0]["stop_reason"] == ids[3]


async def test_a_prefix_hit_is_reported() -> None:
    messages = [{"role": "user", "content": "word " * 40}]
    async with served() as server:
        first = (await server.chat(messages=messages, max_tokens=1)).json()
        again = (await server.chat(messages=messages, max_tokens=1)).json()
    prompt = first["usage"]["prompt_tokens"]
    # vLLM says nothing where it has found nothing.
    assert "prompt_tokens_details" not in first["usage"]
    assert again["usage"]["prompt_tokens_details"] == {"cached_tokens": (prompt - 1) // 16 * 16}
    async with served(Settings(service=QUICK, details=False)) as server:
        assert "prompt_tokens_details" not in (await server.chat()).json()["usage"]


async def test_it_says_what_it_is() -> None:
    async with served() as server:
        models = await server.http.get("/v1/models")
        version = await server.http.get("/version")
    assert models.headers["server"] == "fairlane-emulator"
    assert version.json()["emulator"] is True
    (model,) = models.json()["data"]
    assert model["owned_by"] == "fairlane-emulator"
    assert model["max_model_len"] == 8192


async def test_tokenize_and_detokenize() -> None:
    async with served() as server:
        ids = (await server.http.post("/tokenize", json={"prompt": ASK})).json()
        turns = {"messages": [{"role": "user", "content": ASK}]}
        prompt = (await server.http.post("/tokenize", json=turns)).json()
        text = (await server.http.post("/detokenize", json={"tokens": PROMPT})).json()
    assert ids["tokens"] == tokenize(ASK)
    assert ids["count"] == len(ids["tokens"])
    assert prompt["tokens"] == PROMPT
    assert text["prompt"] == f"<|user|>{ASK}<|end|><|assistant|>"
    assert detokenize(PROMPT) == ASK


async def test_fields_it_does_not_know_are_ignored() -> None:
    async with served() as server:
        answer = await server.chat(max_tokens=2, some_extension={"a": 1}, seed=3, user="me")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"max_tokens": -1}, 400, "max_tokens must be at least 1, got -1."),
        ({"max_completion_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({"max_tokens": 9000}, 400, "maximum context length is 8192 tokens"),
        ({"messages": [{"role": "user", "content": "w " * 20000}]}, 400, "maximum context length"),
        ({"messages": [{"role": "user", "content": "w" * 3_000_000}]}, 400, "750000 input tokens"),
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"priority": -100}, 400, "Priority scheduling is not enabled"),
        ({"messages": []}, 400, "messages"),
        ({"messages": [{"role": "nobody", "content": "x"}]}, 400, "Unexpected message role"),
        ({"messages": "x"}, 400, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "multimodal"),
        ({"temperature": -1}, 400, "temperature must be non-negative"),
        ({"n": 0}, 400, "n must be"),
        ({"stop": [""]}, 400, "stop cannot contain an empty string"),
        ({"stream_options": {"include_usage": True}}, 400, "Stream options"),
        ({"continue_final_message": True}, 400, "Cannot set both"),
        ({"logprobs": True}, 400, "not emulated"),
        ({"tool_choice": "required"}, 400, "not emulated"),
    ],
)
async def test_what_is_refused(body: Json, status: int, text: str) -> None:
    async with served() as server:
        answer = await server.chat(**body)
    error = answer.json()["error"]
    assert answer.status_code == error["code"] == status
    assert set(error) == {"message", "type", "param", "code"}
    assert text in error["message"]


@pytest.mark.parametrize("raw", [b"", b"{", b"[" * 100_000, b'"\xff"', b"null", b'{"model": 3}'])
async def test_a_body_that_is_no_request(raw: bytes) -> None:
    async with served() as server:
        headers = {"content-type": "application/json"}
        for path in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            answer = await server.http.post(path, content=raw, headers=headers)
            assert answer.status_code == answer.json()["error"]["code"] == 400


async def test_another_content_type_an_unknown_path_and_a_wrong_method() -> None:
    async with served() as server:
        text = json.dumps(chat())
        plain = await server.http.post("/v1/chat/completions", content=text)
        lost = await server.http.get("/v1/nothing")
        wrong = await server.http.get("/v1/chat/completions")
    answers = [plain, lost, wrong]
    assert [answer.status_code for answer in answers] == [400, 404, 405]
    assert [answer.json()["error"]["code"] for answer in answers] == [400, 404, 405]


async def test_metrics_have_the_engines_names() -> None:
    async with served() as server:
        await server.chat(max_tokens=5)
        page = (await server.http.get("/metrics")).text
        card = (await server.http.get("/dcgm/metrics")).text
    labels = f'{{engine="0",model_name="{DEFAULT_MODEL}"}}'
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert f"vllm:{name}{labels} 0.0\n" in page
    assert f"vllm:prompt_tokens_total{labels} {float(len(PROMPT))}\n" in page
    assert f"vllm:generation_tokens_total{labels} 5.0\n" in page
    for name in ("num_preemptions_total", "prefix_cache_queries_total", "prefix_cache_hits_total"):
        assert f"vllm:{name}{labels} " in page
    for name in ("request_queue_time", "time_to_first_token", "inter_token_latency"):
        assert f"vllm:{name}_seconds_count{labels} " in page
    for name in ("GPU_UTIL", "FB_USED", "FB_FREE"):
        assert f"\nDCGM_FI_DEV_{name}{{" in card
