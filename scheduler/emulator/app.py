"""The routes, and an emulator that listens."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from .errors import ApiError
from .exposition import kv_usage
from .faults import Faults
from .generation import Generation
from .requests import DetokenizeRequest, TokenizeRequest, chat_prompt_ids, message_pairs
from .server import (
    NAME,
    VERSION,
    Emulator,
    Inference,
    error_response,
    json_response,
    parse,
)
from .settings import Settings
from .tokens import detokenize, tokenize

# Large multimodal bodies are legitimate, so the cap is the gateway's business.
MAX_BODY_BYTES = 256 * 1024 * 1024
STOP_GRACE_S = 0.2
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Service:
    """Everything but inference."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    async def health(self, _: web.Request) -> web.Response:
        """``GET /health``: empty, 200 or 503."""
        return web.Response(status=503 if self._emulator.faults.current.never_ready else 200)

    async def version(self, _: web.Request) -> web.Response:
        """``GET /version``."""
        return json_response(msgspec.json.encode({"version": VERSION, "emulator": True}))

    async def models(self, _: web.Request) -> web.Response:
        """``GET /v1/models``."""
        data: list[dict[str, object]] = [
            {
                "id": name,
                "object": "model",
                "created": self._emulator.started,
                "owned_by": NAME,
                "root": name,
                "parent": None,
                "max_model_len": self._emulator.settings.max_model_len,
                "permission": [],
            }
            for name in self._emulator.settings.models
        ]
        return json_response(msgspec.json.encode({"object": "list", "data": data}))

    async def metrics(self, _: web.Request) -> web.Response:
        """``GET /metrics``."""
        return _text(self._emulator.exposition.engine())

    async def card(self, _: web.Request) -> web.Response:
        """``GET /dcgm/metrics``."""
        return _text(self._emulator.exposition.card(asyncio.get_running_loop().time()))

    async def tokenize(self, request: web.Request) -> web.Response:
        """``POST /tokenize``."""
        body = parse(TokenizeRequest, await request.read())
        if body.messages is not None:
            ids = chat_prompt_ids(
                message_pairs(body.messages),
                add_generation_prompt=body.add_generation_prompt,
                continue_final_message=body.continue_final_message,
            )
        else:
            ids = tokenize(body.prompt or "")
        limit = self._emulator.settings.max_model_len
        answer = {"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": None}
        return json_response(msgspec.json.encode(answer))

    async def detokenize(self, request: web.Request) -> web.Response:
        """``POST /detokenize``."""
        body = parse(DetokenizeRequest, await request.read())
        text = detokenize(body.tokens, special=True)
        return json_response(msgspec.json.encode({"prompt": text}))


class Control:
    """``/emulator``: faults and notes, for tests."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator

    async def set_faults(self, request: web.Request) -> web.Response:
        """``POST /emulator/faults``: replaces the faults in force."""
        self._emulator.faults.set(parse(Faults, await request.read()))
        return await self.faults(request)

    async def clear_faults(self, request: web.Request) -> web.Response:
        """``DELETE /emulator/faults``."""
        self._emulator.faults.clear()
        return await self.faults(request)

    async def faults(self, _: web.Request) -> web.Response:
        """``GET /emulator/faults``: those in force."""
        return json_response(msgspec.json.encode(self._emulator.faults.current))

    async def state(self, _: web.Request) -> web.Response:
        """``GET /emulator/state``: what the server saw and is doing."""
        engine, counters = self._emulator.engine, self._emulator.engine.counters
        state = self._emulator.recorder.as_dict() | {
            "running": len(engine.running),
            "waiting": len(engine.waiting),
            "max_running": self._emulator.driver.max_running,
            "kv_usage": kv_usage(engine),
            "preemptions": counters.preemptions,
            "prompt_tokens": counters.prompt_tokens,
            "generation_tokens": counters.generation_tokens,
            "prefix_hit_tokens": counters.prefix_hits,
        }
        return json_response(msgspec.json.encode(state))

    async def reset(self, _: web.Request) -> web.Response:
        """``DELETE /emulator/state``: forget what was seen, and the idle prefix cache."""
        self._emulator.recorder.reset()
        self._emulator.driver.max_running = len(self._emulator.engine.running)
        self._emulator.engine.pool.forget()
        return web.Response(status=204)


def _text(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": PROMETHEUS_TEXT})


@web.middleware
async def _in_shape(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors of the framework and of the service endpoints in vLLM's shape."""
    try:
        return await handler(request)
    except ApiError as error:
        return error_response(error)
    except web.HTTPException as error:
        return error_response(
            ApiError(error.reason, status=error.status, kind=error.reason.replace(" ", ""))
        )


async def _sign(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = NAME


def build_app(emulator: Emulator) -> web.Application:
    """The application; it needs ``handler_cancellation`` to notice clients that leave."""
    service, control = Service(emulator), Control(emulator)
    generation = Generation(emulator)
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_in_shape])
    app.on_response_prepare.append(_sign)
    app.add_routes(
        [
            web.post("/v1/chat/completions", Inference(emulator, generation.chat).handle),
            web.post("/v1/completions", Inference(emulator, generation.completions).handle),
            web.post("/v1/embeddings", Inference(emulator, generation.embeddings).handle),
            web.get("/v1/models", service.models),
            web.get("/health", service.health),
            web.get("/ping", service.health),
            web.post("/ping", service.health),
            web.get("/version", service.version),
            web.get("/metrics", service.metrics),
            web.get("/dcgm/metrics", service.card),
            web.post("/tokenize", service.tokenize),
            web.post("/detokenize", service.detokenize),
            web.post("/emulator/faults", control.set_faults),
            web.delete("/emulator/faults", control.clear_faults),
            web.get("/emulator/faults", control.faults),
            web.get("/emulator/state", control.state),
            web.delete("/emulator/state", control.reset),
        ]
    )
    return app


@dataclass(frozen=True, slots=True)
class Listening:
    """An emulator and where it listens."""

    emulator: Emulator
    url: str


@asynccontextmanager
async def listen(
    settings: Settings, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Listening]:
    """Run an emulator in this event loop; port 0 takes a free one. Raises OSError."""
    emulator = Emulator(settings)
    runner = web.AppRunner(
        build_app(emulator),
        handler_cancellation=True,
        access_log=None,
        shutdown_timeout=STOP_GRACE_S,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=1024)
        await site.start()
        bound = runner.addresses[0][1]
        yield Listening(emulator, f"http://{f'[{host}]' if ':' in host else host}:{bound}")
    finally:
        await runner.cleanup()
        emulator.driver.stop()
