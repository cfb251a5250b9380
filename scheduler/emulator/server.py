"""The emulated server as an object: the parts its endpoints share."""

import asyncio
import gzip
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from aiohttp import web

from .driver import Driver
from .engine import Engine
from .errors import ApiError, unknown_model
from .exposition import Exposition
from .faults import FaultBox, Faults
from .recorder import BODY_BYTES, Recorder, Seen
from .settings import Settings
from .streams import HOP_HEADERS

NAME = "fairlane-emulator"
VERSION = "0.11.0+fairlane.emulator"
Body = TypeVar("Body", bound=msgspec.Struct)


class Emulator:
    """Engine, clockwork, faults and notes of one server."""

    def __init__(self, settings: Settings) -> None:
        settings.check()
        self.settings = settings
        self.engine = Engine(settings.service)
        self.driver = Driver(self.engine, asyncio.get_running_loop())
        self.faults = FaultBox()
        self.recorder = Recorder(keep=settings.keep)
        self.exposition = Exposition(self.engine, settings.models[0], settings.memory_gb)
        self.started = int(time.time())

    def check_model(self, name: str | None) -> str:
        """The model to answer as. Raises ApiError for one there is none of."""
        if not name:
            return self.settings.models[0]
        if name not in self.settings.models:
            raise unknown_model(name)
        return name

    def check_priority(self, priority: int) -> None:
        """Raises ApiError where the queue does not go by priority."""
        if priority and not self.settings.service.by_priority:
            raise ApiError(
                f"Got priority {priority} but Priority scheduling is not enabled.",
                param="priority",
            )


def parse(kind: type[Body], raw: bytes) -> Body:
    """The body as ``kind``. Raises ApiError (400) where it is no JSON of that form."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ApiError(f"Invalid request body: {error}") from error
    except RecursionError as error:
        raise ApiError("Invalid request body: nested too deeply") from error


def request_id(request: web.Request) -> str:
    """The caller's ``X-Request-Id``, or a new one."""
    return request.headers.get("X-Request-Id") or uuid.uuid4().hex


def json_response(body: bytes, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(body=body, status=status, content_type="application/json")


def error_response(error: ApiError) -> web.Response:
    """An error in vLLM's shape."""
    return json_response(error.body(), error.status)


Endpoint = Callable[[web.Request, bytes, Faults, Seen], Awaitable[web.StreamResponse]]


class Inference:
    """Wraps an inference endpoint: notes, faults before the answer, errors in shape."""

    def __init__(self, emulator: Emulator, endpoint: Endpoint) -> None:
        self._emulator = emulator
        self._endpoint = endpoint

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The aiohttp handler."""
        recorder = self._emulator.recorder
        seen = recorder.begin(
            request.path, [(str(name), value) for name, value in request.headers.items()]
        )
        outcome, status = "aborted", 0
        try:
            response = await self._answer(request, seen)
            outcome, status = "answered", response.status
            return response
        except ApiError as error:
            outcome, status = "refused", error.status
            return error_response(error)
        finally:
            recorder.end(seen, outcome, status)

    async def _answer(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        raw = await request.read()
        seen.body = raw[:BODY_BYTES].decode("utf-8", "replace")
        seen.id = request_id(request)
        faults = self._emulator.faults.take()
        if faults.stall_before_headers_s:
            await asyncio.sleep(faults.stall_before_headers_s)
        if faults.refuse is not None:
            return _busy(faults)
        if faults.error is not None:
            raise ApiError(faults.error_message, status=faults.error, kind="InternalServerError")
        if request.content_type != "application/json":
            raise ApiError("Unsupported Media Type: Only 'application/json' is allowed")
        response = await self._endpoint(request, raw, faults, seen)
        if faults.gzip and isinstance(response, web.Response):
            _compress(response)
        return response


def _busy(faults: Faults) -> web.Response:
    error = ApiError("The server is overloaded.", status=faults.refuse or 503, kind="ServerBusy")
    response = error_response(error)
    if faults.retry_after is not None:
        response.headers["Retry-After"] = str(faults.retry_after)
    return response


def _compress(response: web.Response) -> None:
    assert isinstance(response.body, bytes)
    response.body = gzip.compress(response.body)
    response.headers.update(HOP_HEADERS)
    response.headers["Content-Encoding"] = "gzip"
