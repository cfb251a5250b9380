"""``python -m scheduler.probing``: probes for the process at the other end of its standard
input, a socket, until that is closed."""

import asyncio
import socket
import sys

from .worker import Worker


async def main() -> None:
    """Until nobody hears any more."""
    worker = Worker()
    line = socket.socket(fileno=sys.stdin.fileno())
    await asyncio.get_running_loop().create_unix_connection(lambda: worker.lines, sock=line)
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main())
