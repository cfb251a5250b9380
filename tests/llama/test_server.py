"""What the real llama.cpp server does, as far as the project relies on it."""

import contextlib
import json
import uuid
from collections.abc import Iterator
from time import monotonic, sleep

import httpx
import pytest

from tests.support.engines import EngineProcess

pytestmark = pytest.mark.llama

CHAT = "/v1/chat/completions"
Json = dict[str, object]


@pytest.fixture
def http(llama_server: EngineProcess) -> Iterator[httpx.Client]:
    """A client for it; the server has to be at rest when the test is over."""
    # It closes a connection after a stream although it says keep-alive, so none is kept.
    limits = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(
        base_url=llama_server.url, timeout=50, trust_env=False, limits=limits
    ) as client:
        yield client
        wait_until_idle(client)


def wait_until_idle(client: httpx.Client, within: float = 30.0) -> float:
    """Seconds until no slot is busy."""
    begun = monotonic()
    while any(slot["is_processing"] for slot in client.get("/slots").json()):
        assert monotonic() - begun < within
        sleep(0.01)
    return monotonic() - begun


def chat(text: str, **more: object) -> Json:
    return {
        "model": "smollm2",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": 8,
        **more,
    }


def test_it_is_healthy_and_answers_to_its_alias(http: httpx.Client) -> None:
    assert http.get("/health").json() == {"status": "ok"}
    assert [model["id"] for model in http.get("/v1/models").json()["data"]] == ["smollm2"]


def test_a_plain_answer_has_text_and_usage(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=chat("Say hello.")).json()
    assert answer["choices"][0]["message"]["content"].strip()
    usage = answer["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8
    assert "cached_tokens" in usage["prompt_tokens_details"]


def test_a_stream_equals_the_plain_answer(http: httpx.Client) -> None:
    ask = "Name three rivers of Europe."
    plain = http.post(CHAT, json=chat(ask)).json()["choices"][0]["message"]["content"]
    body = chat(ask, stream=True, stream_options={"include_usage": True})
    with http.stream("POST", CHAT, json=body) as response:
        lines = [line.removeprefix("data: ") for line in response.iter_lines() if line]
    *chunks, done = lines
    assert done == "[DONE]"
    parsed = [json.loads(chunk) for chunk in chunks]
    texts = [choice["delta"].get("content") for one in parsed for choice in one["choices"]]
    assert "".join(text or "" for text in texts) == plain
    assert parsed[-1]["usage"]["completion_tokens"] == 8
    assert "timings" in parsed[-1]


def test_leaving_a_stream_after_its_first_token_frees_the_slot(http: httpx.Client) -> None:
    body = chat("Tell me a very long story.", stream=True, max_tokens=3000, ignore_eos=True)
    with http.stream("POST", CHAT, json=body) as response:
        lines = response.iter_lines()
        assert any('"content":"' in line for line in lines)
        assert any(slot["is_processing"] for slot in http.get("/slots").json())
    wait_until_idle(http)


def test_a_prompt_beyond_the_slots_context_is_a_400(http: httpx.Client) -> None:
    answer = http.post(CHAT, json=chat("word " * 5000))
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "exceed_context_size_error"


def test_metrics_count_what_runs(http: httpx.Client) -> None:
    page = http.get("/metrics").text
    for name in ("requests_processing", "requests_deferred", "tokens_predicted_total"):
        assert f"\nllamacpp:{name} " in page


def test_a_slot_is_saved_and_continued_in_another(http: httpx.Client) -> None:
    """Interrupted, saved, restored into the other slot and continued by token ids, the text is
    the one of a run that was not interrupted."""
    body: Json = {
        "prompt": "The history of bridges is long. " * 6 + "In the beginning",
        "temperature": 0,
        "return_tokens": True,
        "ignore_eos": True,
    }
    prompt = http.post("/tokenize", json={"content": body["prompt"], "add_special": True}).json()
    body["prompt"] = prompt["tokens"]
    whole = http.post("/completion", json={**body, "n_predict": 24, "id_slot": 0}).json()
    http.post("/slots/0?action=erase")
    first = http.post("/completion", json={**body, "n_predict": 9, "id_slot": 0}).json()
    name = {"filename": f"test-{uuid.uuid4().hex}.bin"}
    saved = http.post("/slots/0?action=save", json=name).json()
    assert saved["n_saved"] >= len(prompt["tokens"])
    http.post("/slots/1?action=erase")
    restored = http.post("/slots/1?action=restore", json=name).json()
    assert restored["n_restored"] == saved["n_saved"]
    body["prompt"] = prompt["tokens"] + first["tokens"]
    rest = http.post("/completion", json={**body, "n_predict": 15, "id_slot": 1}).json()
    assert rest["tokens_cached"] > len(prompt["tokens"])
    assert rest["timings"]["prompt_n"] <= 2
    assert first["tokens"] + rest["tokens"] == whole["tokens"]


def test_a_missing_snapshot_is_a_400(http: httpx.Client) -> None:
    missing = http.post("/slots/0?action=restore", json={"filename": "no-such.bin"})
    assert missing.status_code == 400


def test_a_slot_beyond_the_last_is_another_one(http: httpx.Client) -> None:
    """The number is taken modulo the slots, with a 200: whoever saves has to know how many."""
    http.post("/completion", json={"prompt": "One", "n_predict": 3, "id_slot": 1})
    one = http.post("/slots/1?action=save", json={"filename": "one.bin"}).json()
    nine = http.post("/slots/9?action=save", json={"filename": "nine.bin"})
    assert nine.status_code == 200
    assert nine.json()["id_slot"] == 9
    assert nine.json()["n_saved"] == one["n_saved"] > 0


def test_two_run_and_the_third_waits(http: httpx.Client) -> None:
    body = chat("Count slowly.", stream=True, max_tokens=2000, ignore_eos=True)
    with contextlib.ExitStack() as stack:
        # An iterator that is dropped closes its stream, so both are kept.
        streams = [
            stack.enter_context(http.stream("POST", CHAT, json=body)).iter_lines() for _ in "ab"
        ]
        for lines in streams:
            assert any('"content":"' in line for line in lines)
        assert http.get("/slots?fail_on_no_slot=1").status_code == 503
    wait_until_idle(http)
    assert http.get("/slots?fail_on_no_slot=1").status_code == 200
