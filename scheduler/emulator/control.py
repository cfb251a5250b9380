"""``/emulator``: what tests set and see."""

import msgspec
from aiohttp import web

from .exposition import kv_usage
from .faults import Faults
from .server import Emulator, json_response, parse


class Control:
    """Faults to set, notes to read."""

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
        self._emulator.driver.on_step()
        return web.Response(status=204)
