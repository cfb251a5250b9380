"""A gateway that makes room by killing: what most do that preempt at all.

It has so many slots. An urgent call that finds none ends a low one, whose caller gets an
error and nothing more. It stands for the method, not for any product.
"""

import argparse
import asyncio
from collections import deque

import aiohttp
from aiohttp import web

URGENT = "urgent"
ERROR = b'data: {"error":{"message":"preempted","type":"server_error","code":"preempted"}}\n\n'


class Killer:
    """Slots, the low calls that hold one, and those that wait."""

    def __init__(self, upstream: str, slots: int) -> None:
        self._upstream = upstream
        self._free = slots
        self._low: list[asyncio.Task[None]] = []
        self._waiting: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (
            deque(),
            deque(),
        )

    async def health(self, request: web.Request) -> web.Response:
        """It runs."""
        return web.Response(text="ok")

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One stream. Whose key says urgent is."""
        low = URGENT not in request.headers.get("Authorization", "")
        body = await request.read()
        await self._slot(low=low)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        relay = asyncio.create_task(self._relay(request, response, body))
        if low:
            self._low.append(relay)
        try:
            await relay
        except asyncio.CancelledError:
            if not response.prepared:
                await response.prepare(request)
            await response.write(ERROR)
        finally:
            if low:
                self._low.remove(relay)
            self._release()
        await response.write_eof()
        return response

    async def _relay(self, request: web.Request, response: web.StreamResponse, body: bytes) -> None:
        async with (
            aiohttp.ClientSession() as session,
            session.post(
                self._upstream + request.path,
                data=body,
                headers={"Content-Type": "application/json"},
            ) as upstream,
        ):
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)

    async def _slot(self, *, low: bool) -> None:
        if self._free:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[low].append(turn)
        victims = [task for task in self._low if not task.cancelling()]
        if not low and victims:
            victims[-1].cancel()
        await turn

    def _release(self) -> None:
        for queue in self._waiting:
            if queue:
                queue.popleft().set_result(None)
                return
        self._free += 1


def make_app(killer: Killer) -> web.Application:
    """Its routes."""
    app = web.Application()
    app.router.add_get("/health", killer.health)
    app.router.add_post("/v1/completions", killer.serve)
    return app


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--slots", type=int, required=True)
    options = parser.parse_args()
    app = make_app(Killer(options.upstream, options.slots))
    web.run_app(app, host="127.0.0.1", port=options.port, print=None)


if __name__ == "__main__":
    main()
