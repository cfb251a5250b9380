"""``python -m bench.unmetered --port N``: Fairlane's gateway as ``manage.py serve`` runs it, but
for its usage rows, which go nowhere."""

import argparse
import os
from functools import lru_cache

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")
django.setup()

# Only a Django that is set up can be served.
from django.core.management import call_command  # noqa: E402

from console.config import asgi, wiring  # noqa: E402
from console.management.commands import serve  # noqa: E402
from metering.core.usage import UsageRow  # noqa: E402
from scheduler.runtime import Runtime  # noqa: E402


class NullSink:
    """Takes rows and keeps none."""

    def start(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to close."""

    def append(self, row: UsageRow) -> None:
        """Let it go."""

    def pending(self) -> int:
        """Nothing is ever pending."""
        return 0


@lru_cache(maxsize=1)
def unmetered() -> Runtime:
    """The process's scheduler and gateway."""
    return wiring.make_runtime(NullSink())


vars(asgi)["runtime"] = unmetered
application = asgi.gateway_application


def main() -> None:
    """Serve this module's application."""
    parser = argparse.ArgumentParser(prog="bench.unmetered", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    serve.TARGETS["gateway"] = ("bench.unmetered:application", 0)
    call_command("serve", role="gateway", port=parser.parse_args().port)


if __name__ == "__main__":
    main()
