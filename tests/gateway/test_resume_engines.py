"""Engines that are only known by their shapes: what they are asked, and that a repeated
beginning is told once."""

import json
from contextlib import AsyncExitStack

import pytest

from .harness import LOW_KEY, furnished, gate, replica
from .stub import DONE, Seen, Wire, delta, event, stub, usage_event
from .test_resume import Chunk, events, text_of

BEFORE = "The quick brown fox"
USAGE = {"include_usage": True}
ENGINES = ["openai", "tgi", "sglang", "vllm", "llamacpp"]


class Breaking:
    """The first request gets a beginning and a reset; the next one is asked to go on."""

    def __init__(self, *, echo: bool, chat: bool = True) -> None:
        self.seen: list[Seen] = []
        self._echo = echo
        self._chat = chat

    def _piece(self, text: str, finish: str | None = None) -> bytes:
        if self._chat:
            return delta(text, finish=finish)
        choice = {"index": 0, "text": text, "finish_reason": finish}
        head = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "chat"}
        return event({**head, "choices": [choice]})

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        if seen.path.startswith("/slots"):
            await wire.answer(b"no such thing", 501)
            return
        self.seen.append(seen)
        await wire.begin_stream()
        if len(self.seen) == 1:
            for text in ("The", " quick", " brown", " fox"):
                await wire.chunk(self._piece(text))
            wire.reset()
            return
        said = [BEFORE + " jumps", " over"] if self._echo else [" jumps", " over"]
        for text in said:
            await wire.chunk(self._piece(text))
        await wire.chunk(self._piece("", finish="stop"))
        await wire.chunk(usage_event(11, 2))
        await wire.chunk(DONE)
        await wire.end_stream()

    @property
    def second(self) -> Chunk:
        found: Chunk = json.loads(self.seen[1].body)
        return found


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("echo", [False, True])
async def test_a_stream_is_carried_over(name: str, echo: bool) -> None:
    answer = Breaking(echo=echo and name != "vllm")
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}", engine=name) for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        body = await gateway.streamed("hi", max_tokens=9, stream_options=USAGE)
        chunks = events(body)
        assert text_of(chunks) == BEFORE + " jumps over"
        assert chunks[-1]["usage"]["completion_tokens"] == 6
        assert body.count(b"[DONE]") == 1
        asked = answer.second
        assert asked["messages"][-1] == {"role": "assistant", "content": BEFORE}
        assert asked["max_tokens"] == 5
        assert asked.get("continue_final_message", False) is (name in {"vllm", "sglang"})
        assert asked.get("id_slot") == (0 if name == "llamacpp" else None)
        row = await gateway.row()
        assert (row.status, row.attempts, row.completion_tokens) == ("ok", 2, 6)


@pytest.mark.parametrize("name", ENGINES)
async def test_a_plain_answer_is_carried_over(name: str) -> None:
    answer = Breaking(echo=name != "vllm")
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}", engine=name) for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        whole = (await gateway.chat("hi", key=LOW_KEY)).json()
        assert whole["choices"][0]["message"]["content"] == BEFORE + " jumps over"
        assert whole["choices"][0]["finish_reason"] == "stop"
        assert whole["usage"]["completion_tokens"] == 6
        assert answer.second["stream"] is True


async def test_a_completion_is_carried_over() -> None:
    answer = Breaking(echo=True, chat=False)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}", engine="tgi") for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        response = await gateway.client.post(
            "/v1/completions",
            json={"model": "chat", "prompt": "Once: ", "stream": True},
            headers=gateway.headers(),
        )
        texts = [piece["text"] for one in events(response.content) for piece in one["choices"]]
        assert "".join(texts) == BEFORE + " jumps over"
        assert answer.second["prompt"] == "Once: " + BEFORE


async def test_slot_numbers_of_the_caller_are_not_passed_on() -> None:
    """Slots are given out here: another number would land on somebody else's."""
    answer = Breaking(echo=False)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [
            replica(s.url, name=f"r{n}", engine="llamacpp", slots=2) for n, s in enumerate(servers)
        ]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        await gateway.streamed("hi", id_slot=7)
        assert [json.loads(seen.body)["id_slot"] for seen in answer.seen] == [0, 0]


def counted(text: str, said: int, finish: str | None = None) -> bytes:
    """A chunk with running totals behind its choices."""
    body = json.loads(delta(text, finish=finish)[6:])
    return event({**body, "usage": {"prompt_tokens": 7, "completion_tokens": said}})


async def test_sglang_counts_what_was_cut_off() -> None:
    """It tells no ids in a chat stream, but running totals where it is asked for them: a
    character of three tokens is no single one. The caller did not ask, and sees none."""
    asked: list[Chunk] = []

    async def answer(seen: Seen, wire: Wire) -> None:
        asked.append(seen.json)
        await wire.begin_stream()
        if len(asked) == 1:
            await wire.chunk(counted("🎉", 3) + counted("🎊", 6))
            wire.reset()
            return
        await wire.chunk(counted("🥳", 3) + counted("", 3, "stop") + usage_event(13, 3) + DONE)
        await wire.end_stream()

    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}", engine="sglang") for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        body = await gateway.streamed("hi", max_tokens=20)
        assert text_of(events(body)) == "🎉🎊🥳"
        assert b"usage" not in body
        row = await gateway.row()
        assert (row.prompt_tokens, row.completion_tokens, row.estimated) == (7, 9, False)
    assert asked[0]["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert asked[1]["max_tokens"] == 14


async def test_what_no_engine_counted_is_marked_as_an_estimate() -> None:
    """A text cut off on a server that tells nothing: its events are counted."""
    answer = Breaking(echo=False)
    async with AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(stub(answer)) for _ in "ab"]
        replicas = [replica(s.url, name=f"r{n}", engine="tgi") for n, s in enumerate(servers)]
        gateway = await stack.enter_async_context(gate(furnished(*replicas)))
        await gateway.streamed("hi")
        row = await gateway.row()
        assert (row.status, row.completion_tokens, row.estimated) == ("ok", 6, True)
        assert "continuous_usage_stats" not in json.loads(answer.seen[0].body)["stream_options"]
