"""Names of servers, and the addresses that connections may go to."""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from typing import Any

# A name is looked up again after so long, in time for one that moves.
FOLLOW_S = 30.0
# A connection waits for that up to so long, and then goes to the addresses known so far.
PATIENCE_S = 0.25

# Address family, and what a socket connects to: the address in text form first, then the port.
Address = tuple[int, tuple[Any, ...]]
_Place = tuple[str, int]


class Names:
    """Resolves names, and gives back only addresses that replicas may have: that is judged each
    time, whatever was known before. A look-up that is slow or fails takes no replica away: the
    addresses from before hold on. ``allowed`` judges an IP address in text form."""

    def __init__(self, allowed: Callable[[str], bool]) -> None:
        self._allowed = allowed
        self._known: dict[_Place, tuple[float, list[Address]]] = {}
        self._looking: dict[_Place, asyncio.Task[None]] = {}

    async def addresses(self, host: str, port: int) -> list[Address]:
        """Where a host is, at least one address. Raises OSError."""
        found = _literal(host, port) or await self._resolved((host, port))
        kept = [address for address in found if self._allowed(address[1][0])]
        if not kept:
            raise OSError(f"{host} has no address that replicas may have")
        return kept

    async def close(self) -> None:
        """Wait for no look-up any more."""
        for task in self._looking.values():
            task.cancel()
        await asyncio.gather(*self._looking.values(), return_exceptions=True)

    async def _resolved(self, place: _Place) -> list[Address]:
        known = self._known.get(place)
        if known is None:
            await asyncio.shield(self._look_up(place))
        elif asyncio.get_running_loop().time() - known[0] > FOLLOW_S:
            await asyncio.wait({self._look_up(place)}, timeout=PATIENCE_S)
        return self._known[place][1]

    def _look_up(self, place: _Place) -> asyncio.Task[None]:
        """The look-up of a name; whoever asks while one is under way shares it."""
        task = self._looking.get(place)
        if task is None:
            task = self._looking[place] = asyncio.create_task(self._renew(place))
            task.add_done_callback(lambda done: self._ended(place, done))
        return task

    async def _renew(self, place: _Place) -> None:
        loop = asyncio.get_running_loop()
        host, port = place
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses: list[Address] = [(entry[0], entry[4]) for entry in found]
        self._known[place] = loop.time(), addresses

    def _ended(self, place: _Place, task: asyncio.Task[None]) -> None:
        del self._looking[place]
        if not task.cancelled():
            # Who knew no address has been told what went wrong; others go by what they knew.
            task.exception()


def _literal(host: str, port: int) -> list[Address]:
    """The address that a host is written as, if it is one."""
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return []
    return [(socket.AF_INET if version == 4 else socket.AF_INET6, (host, port))]
