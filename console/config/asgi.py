"""The ASGI applications: console alone, gateway alone, or both in one process.

Inference never passes through Django: its paths are split off first, with nothing wrapped
around them that could swallow a caller's hang-up.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from typing import Any, cast

from channels.routing import ProtocolTypeRouter
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")
django_application = get_asgi_application()

# Django must be set up before anything that reaches its models is imported.
from console.config.memory import settle  # noqa: E402
from console.config.stopping import at_stop_signal, end_with_parent  # noqa: E402
from console.config.wiring import runtime  # noqa: E402
from console.live.hub import get_hub  # noqa: E402
from console.live.routing import websocket_application  # noqa: E402
from console.upkeep import Upkeep  # noqa: E402
from scheduler.gateway.app import PREFIXES  # noqa: E402

log = logging.getLogger(__name__)

Scope = dict[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
GRACE_S = 20.0
upkeep = Upkeep()

console = cast(
    "App", ProtocolTypeRouter({"http": django_application, "websocket": websocket_application})
)


async def _lifespan(receive: Any, send: Any, *, gateway: bool, hub: bool) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            if hub:
                await get_hub().start()
            if gateway:
                await runtime().start()
            upkeep.start()
            at_stop_signal(lambda: _begin_stop(gateway=gateway, hub=hub))
            end_with_parent()
            settle()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            if gateway:
                await runtime().stop(GRACE_S)
            await upkeep.stop()
            if hub:
                await get_hub().stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _begin_stop(*, gateway: bool, hub: bool) -> None:
    """Let go of everybody who would keep the server from stopping."""
    if hub:
        await get_hub().stop()
    if gateway:
        await runtime().retire(GRACE_S)


async def application(scope: Scope, receive: Any, send: Any) -> None:
    """Role ``all``: gateway, scheduler and console."""
    kind = scope["type"]
    if kind == "http" and scope["path"].startswith(PREFIXES):
        await runtime().gateway(scope, receive, send)
    elif kind == "lifespan":
        await _lifespan(receive, send, gateway=True, hub=True)
    else:
        await console(scope, receive, send)


async def gateway_application(scope: Scope, receive: Any, send: Any) -> None:
    """Role ``gateway``: inference and the scheduler, no console."""
    if scope["type"] == "http":
        await runtime().gateway(scope, receive, send)
    elif scope["type"] == "lifespan":
        await _lifespan(receive, send, gateway=True, hub=False)
    else:
        await send({"type": "websocket.close", "code": 1000})


async def console_application(scope: Scope, receive: Any, send: Any) -> None:
    """Role ``console``: pages and the live feed alone."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send, gateway=False, hub=True)
    else:
        await console(scope, receive, send)
