"""The live WebSocket."""

import asyncio
import logging
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from asgiref.typing import ASGIReceiveCallable, ASGISendCallable
from channels.db import database_sync_to_async
from channels.exceptions import StopConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.http import parse_cookie
from django.http.request import split_domain_port, validate_host

from .access import admit, session_cookie
from .hub import LiveHub, Viewer, ViewerEnded, get_hub

if TYPE_CHECKING:
    from channels.consumer import _ChannelScope

logger = logging.getLogger(__name__)

TOO_SLOW = 4408
RESYNC = '{"type":"resync"}'
CLOSE_S = 1.0


class LiveConsumer(AsyncWebsocketConsumer):
    """Refused before it opens unless the browser's session, origin and role allow it.

    What it shows follows from the signed-in person alone: nothing in the address or in what
    the client sends has any influence, but for ``{"type":"resync"}``.
    """

    # No channel of the layer per socket: the hub has one for all.
    channel_layer_alias = ""

    def __init__(self, hub: LiveHub | None = None) -> None:
        super().__init__()
        self.hub = hub or get_hub()
        self.viewer: Viewer | None = None
        self.pump: asyncio.Task[int] | None = None
        self.over = asyncio.Event()

    async def __call__(
        self,
        scope: "_ChannelScope",
        receive: ASGIReceiveCallable,
        send: ASGISendCallable,
    ) -> None:
        """Serve the socket until either side ends it, and leave nothing behind however it ends."""
        serving = asyncio.create_task(super().__call__(scope, receive, send))
        ending = asyncio.create_task(self.over.wait())
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
            else:
                await self._say_goodbye()
        finally:
            if self.viewer is not None:
                self.hub.leave(self.viewer)
            tasks = [task for task in (serving, ending, self.pump) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def connect(self) -> None:
        """Accept, or refuse with no frame at all."""
        self.viewer = await self._admit(dict(self.scope["headers"]))
        if self.viewer is None:
            await self.close()
            raise StopConsumer
        await self.accept()
        self.pump = asyncio.create_task(self._pump(self.viewer))
        self.pump.add_done_callback(lambda _: self.over.set())

    async def _admit(self, headers: dict[bytes, bytes]) -> Viewer | None:
        """A place for whoever may watch; the database is only asked for our own pages."""
        if not same_origin(headers):
            return None
        key = session_cookie(parse_cookie(headers.get(b"cookie", b"").decode("latin-1")))
        entry = await database_sync_to_async(admit)(key) if key else None
        return None if entry is None else self.hub.join(entry)

    async def receive(
        self,
        text_data: str | None = None,
        bytes_data: bytes | None = None,
    ) -> None:
        """A page that noticed a gap asks for a snapshot; anything else means nothing."""
        if self.viewer is not None and text_data is not None and is_resync(text_data):
            self.hub.resync(self.viewer)

    async def _pump(self, viewer: Viewer) -> int:
        """Send what is new until the end; returns the code to close with."""
        try:
            while True:
                text = await self.hub.next_text(viewer)
                async with asyncio.timeout(self.hub.limits.drain_s):
                    await self.send(text_data=text)
        except ViewerEnded as end:
            return end.code
        except TimeoutError:
            logger.info("dropped a live viewer that stopped reading")
            return TOO_SLOW

    async def _say_goodbye(self) -> None:
        """Close from our side; a peer that doesn't read won't take even that."""
        assert self.pump is not None, "only the pump ends a socket from our side"
        try:
            code = self.pump.result()
            async with asyncio.timeout(CLOSE_S):
                await self.close(code=code)
        except (TimeoutError, OSError, RuntimeError):
            logger.debug("a live socket was gone before it was closed", exc_info=True)


def is_resync(text: str) -> bool:
    """Whether a client's message is the one that means something."""
    return len(text) < 64 and "".join(text.split()) == RESYNC


def same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether a page of this very site opened the socket: Origin names the Host it was sent to."""
    host = headers.get(b"host", b"").decode("latin-1").lower()
    origin = urlsplit(headers.get(b"origin", b"").decode("latin-1").lower())
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    default = {"http": ":80", "https": ":443"}.get(origin.scheme)
    return default is not None and origin.netloc.removesuffix(default) == host.removesuffix(default)
