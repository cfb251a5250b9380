"""An ASGI application for a real server: live sockets, many frames a second, and figures of
the process itself. Who is admitted is tested elsewhere, so here everybody is."""

import asyncio
import json
import os
from collections.abc import Collection
from itertools import count
from pathlib import Path
from typing import Any

import django
from channels.layers import InMemoryChannelLayer
from channels.routing import URLRouter
from django.urls import path

django.setup()

from console.live import consumers  # noqa: E402 - needs Django
from console.live.access import Pass  # noqa: E402
from console.live.board import OPERATIONS  # noqa: E402
from console.live.consumers import LiveConsumer  # noqa: E402
from console.live.hub import Limits, LiveHub  # noqa: E402

from .frames import FrameSource  # noqa: E402

FRAMES_PER_S = float(os.environ.get("FRAMES_PER_S", "100"))

people = count(1)
vars(consumers)["admit"] = lambda session_key: Pass(session_key, next(people), OPERATIONS)


async def all_valid(entries: Collection[Pass]) -> set[Pass]:
    return set(entries)


hub = LiveHub(InMemoryChannelLayer(), all_valid, Limits(drain_s=2.0))
sockets = URLRouter([path("ws/live/", LiveConsumer.as_asgi(hub=hub))])  # type: ignore[arg-type, list-item]


async def publish() -> None:
    source = FrameSource([f"business-{number}" for number in range(10)], feed=50)
    while True:
        await asyncio.sleep(1 / FRAMES_PER_S)
        hub.take({"frame": source.next().as_dict()})


def figures() -> bytes:
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tasks = len(asyncio.all_tasks())
    return json.dumps({"viewers": hub.viewers, "tasks": tasks, "resident": resident}).encode()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await sockets(scope, receive, send)
    elif scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": figures()})
    else:
        await receive()
        await hub.start()
        publisher = asyncio.create_task(publish())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        publisher.cancel()
        await hub.stop()
        await send({"type": "lifespan.shutdown.complete"})
