"""What several tests of this folder need."""

import time
from collections.abc import Callable

import uuid_utils

from metering.core.usage import UsageRow


def usage_row(**fields: object) -> UsageRow:
    """A plain finished request, with ``fields`` in place of its own."""
    now = time.time_ns()
    plain: dict[str, object] = {
        "id": str(uuid_utils.uuid7()),
        "business": "risk-audit",
        "key_prefix": "fl_live_abcd",
        "operation": "chat",
        "received": now - 50_000_000,
        "dispatched": now - 40_000_000,
        "first_byte": now - 30_000_000,
        "finished": now,
        "status": "ok",
        "http_status": 200,
        "requested_model": "chat",
        "served_model": "org/Model-7B",
        "base_level": 1,
        "level": 1,
        "lane": "P0",
        "queue_wait_ms": 10.0,
        "prompt_tokens": 12,
        "completion_tokens": 34,
        "gpu_seconds": 0.5,
        "attempts": 1,
        "replica": "card-1",
    }
    return UsageRow(**{**plain, **fields})  # type: ignore[arg-type]


def wait_until(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Return as soon as ``condition`` holds; fail after ``within`` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within} s"
        time.sleep(0.01)
