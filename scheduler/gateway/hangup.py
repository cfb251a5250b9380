"""Hanging up on a replica: its slot is free when it has noticed, not when we have left.

An engine works on for as long as it has not seen the connection's end, and so would hold
one request more than its slots if another followed at once.
"""

import asyncio
import os
import socket
from collections.abc import Callable

# Engines notice within milliseconds; some look only now and then.
NOTICED_S = 0.25
DISCARDED = 64 * 1024


async def hang_up(transport: asyncio.BaseTransport | None, close: Callable[[], None]) -> None:
    """Call ``close``, which lets go of the connection, and wait a moment until its other side
    has let go too. An encrypted connection is closed and not waited for."""
    line = _hold(transport)
    close()
    if line is None:
        return
    loop = asyncio.get_running_loop()
    try:
        line.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(NOTICED_S):
            while await loop.sock_recv(line, DISCARDED):
                pass
    except OSError:  # TimeoutError is one
        pass
    finally:
        line.close()


def _hold(transport: asyncio.BaseTransport | None) -> socket.socket | None:
    """The connection under a second file descriptor, which outlives the first."""
    if transport is None or transport.get_extra_info("sslcontext") is not None:
        return None
    first = transport.get_extra_info("socket")
    number: int = first.fileno() if first is not None else -1
    if number < 0:
        return None
    line = socket.socket(fileno=os.dup(number))
    line.setblocking(False)
    return line
