"""``python -m scheduler.emulator``: run one server until it is told to stop."""

import asyncio
import logging
import signal
import sys

from .app import listen
from .settings import Command, parse_command

BANNER = """\
Fairlane emulator: NOT a model server. It behaves like vLLM on a card of {slots} slots
and {kv} tokens of KV memory; the text it gives is made up. Models: {models}
"""


async def serve(command: Command) -> None:
    """Listen until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    service = command.settings.service
    banner = BANNER.format(
        slots=service.slots, kv=service.kv_tokens, models=", ".join(command.settings.models)
    )
    async with listen(command.settings, command.host, command.port) as listening:
        sys.stderr.write(banner)
        if listening.events_url:
            sys.stderr.write(f"KV cache events on {listening.events_url}\n")
        out = sys.stdout if command.print_port else sys.stderr
        out.write(f"listening on {listening.url}\n")
        out.flush()
        await stop.wait()


def main(argv: list[str] | None = None) -> int:
    """0 after an orderly stop, 1 with one line on standard error where it can't listen."""
    logging.basicConfig(level=logging.WARNING)
    command = parse_command(argv)
    try:
        asyncio.run(serve(command))
    except OSError as error:
        sys.stderr.write(f"scheduler.emulator: cannot listen: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
