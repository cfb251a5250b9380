"""The routes, and an emulator that listens."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from .control import Control
from .errors import ApiError
from .generation import Generation
from .publishing import Publisher
from .server import NAME, Emulator, Inference, error_response
from .service import Service
from .settings import Settings

# Large multimodal bodies are legitimate, so the cap is the gateway's business.
MAX_BODY_BYTES = 256 * 1024 * 1024
STOP_GRACE_S = 0.2


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
    """An emulator and where it listens, and where it publishes KV cache events, if it does."""

    emulator: Emulator
    url: str
    events_url: str = ""


@contextlib.asynccontextmanager
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
    with contextlib.ExitStack() as stack:
        await runner.setup()
        try:
            site = web.TCPSite(runner, host, port, backlog=1024)
            await site.start()
            bound = runner.addresses[0][1]
            url = f"http://{f'[{host}]' if ':' in host else host}:{bound}"
            yield Listening(emulator, url, _publish(emulator, host, stack))
        finally:
            await runner.cleanup()
            emulator.driver.stop()


def _publish(emulator: Emulator, host: str, stack: contextlib.ExitStack) -> str:
    """Where its KV cache events are until the stack closes; empty where there are none."""
    if emulator.settings.kv_events is None:
        return ""
    publisher = Publisher(emulator.engine.pool, host, emulator.settings.kv_events)
    stack.callback(publisher.close)
    emulator.driver.on_step = publisher.flush
    return publisher.url
