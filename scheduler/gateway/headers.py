"""The response headers that are Fairlane's own."""

from metering.core.usage import UsageRow


def own_headers(row: UsageRow) -> list[tuple[bytes, bytes]]:
    """Who the request was, how urgent, and where it ran, as far as that is known by now."""
    found = [(b"x-request-id", row.id.encode())]
    if row.client_request_id:
        found.append((b"x-client-request-id", row.client_request_id.encode()))
    if row.lane:
        found.append((b"x-lane", row.lane.encode()))
        found.append((b"x-priority-level", str(row.level).encode()))
    if row.replica:
        found.append((b"x-queue-wait-ms", str(round(row.queue_wait_ms)).encode()))
        found.append((b"x-replica", row.replica.encode()))
    if row.degraded_to:
        found.append((b"x-fairlane-degraded", row.degraded_to.encode()))
    return found
