"""The endpoints that take no slot: health, models, metrics, tokens."""

import asyncio
import time

import msgspec
from aiohttp import web

from .prompts import chat_prompt_ids, message_pairs
from .requests import DetokenizeRequest, TokenizeRequest
from .server import NAME, VERSION, Emulator, json_response, parse
from .tokens import detokenize, tokenize

PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Service:
    """What vLLM offers beside inference, and a DCGM exporter's page."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._loaded_at = time.monotonic() + emulator.settings.load_s

    async def health(self, _: web.Request) -> web.Response:
        """``GET /health``: empty, 200 or 503."""
        loading = time.monotonic() < self._loaded_at
        faulty = self._emulator.faults.current.never_ready
        return web.Response(status=503 if loading or faulty else 200)

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


def _text(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": PROMETHEUS_TEXT})
