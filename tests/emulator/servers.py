"""An emulator in the test's own loop, fast enough that nobody waits for its tokens."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from time import monotonic

import httpx

from scheduler.emulator.app import Listening, listen
from scheduler.emulator.engine import ServiceModel
from scheduler.emulator.prompts import chat_prompt_ids
from scheduler.emulator.server import Emulator
from scheduler.emulator.settings import DEFAULT_MODEL, Settings

QUICK = ServiceModel(slots=4, prefill_tokens_per_s=1e6, step_base_ms=1.0, step_per_running_ms=0.1)
# A token each 20 ms: slow enough that a client can leave in the middle.
SLOW = replace(QUICK, step_base_ms=20.0)
CHAT = "/v1/chat/completions"
Json = dict[str, object]
ASK = "What is a queue?"
PROMPT = chat_prompt_ids([("user", ASK)])


@dataclass
class Served:
    """A running emulator and a client for it."""

    emulator: Emulator
    url: str
    http: httpx.AsyncClient
    events_url: str = ""

    async def chat(self, **body: object) -> httpx.Response:
        """One plain chat call."""
        return await self.http.post("/v1/chat/completions", json=chat(**body))

    async def events(self, path: str = CHAT, **body: object) -> list[str]:
        """The data of each event of a stream, ``[DONE]`` included."""
        text = ""
        body = {"stream": True, **(chat(**body) if "prompt" not in body else named(body))}
        async with self.http.stream("POST", path, json=body) as response:
            assert response.status_code == 200
            async for piece in response.aiter_text():
                text += piece
        assert text.endswith("\n\n")
        return [line.removeprefix("data: ") for line in text.split("\n\n") if line]

    async def chunks(self, path: str = CHAT, **body: object) -> list[Json]:
        """The chunks of a stream that ends as it should."""
        *chunks, done = await self.events(path, **body)
        assert done == "[DONE]"
        return [json.loads(chunk) for chunk in chunks]

    async def fault(self, **faults: object) -> None:
        """Set faults."""
        answer = await self.http.post("/emulator/faults", json=faults)
        assert answer.status_code == 200

    async def state(self) -> Json:
        """What the server saw."""
        state: Json = (await self.http.get("/emulator/state")).json()
        return state


def named(body: Json) -> Json:
    """A body with the model's name."""
    return {"model": DEFAULT_MODEL, **body}


def chat(**body: object) -> Json:
    """A chat body."""
    return named({"messages": [{"role": "user", "content": ASK}], **body})


def content(chunks: list[Json]) -> str:
    """The text of a chat stream."""
    return "".join(
        choice["delta"]["content"]
        for chunk in chunks
        for choice in chunk["choices"]  # type: ignore[attr-defined]
    )


@contextlib.asynccontextmanager
async def served(settings: Settings | None = None) -> AsyncIterator[Served]:
    """Run one until the block ends; by then it has to be at rest."""
    async with listen(settings or Settings(service=QUICK)) as listening:
        # Building a TLS context that nobody uses is what takes longest here.
        async with httpx.AsyncClient(
            base_url=listening.url, timeout=20, trust_env=False, verify=False
        ) as http:
            yield Served(listening.emulator, listening.url, http, listening.events_url)
        await at_rest(listening)


async def at_rest(listening: Listening) -> None:
    """Wait until nothing runs or holds memory."""
    engine = listening.emulator.engine
    await until(lambda: not engine.running and not engine.waiting)
    assert engine.pool.used == 0
    await until(lambda: listening.emulator.recorder.in_flight == 0)


async def until(condition: Callable[[], bool], within: float = 30.0) -> float:
    """Seconds until the condition held; fails when it takes too long."""
    begun = monotonic()
    while not condition():
        assert monotonic() - begun < within, f"not within {within} s"
        await asyncio.sleep(0.002)
    return monotonic() - begun
