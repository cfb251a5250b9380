"""How a caller is told of its limits: headers on answers, and the refusal."""

from metering.core.bucket import NEVER
from scheduler.ports import Denied, Level, Standing

from .errors import GatewayError

MS = 1_000_000
# Somebody has to change the limit first.
BLOCKED_S = 3600.0


def limit_headers(standing: Standing) -> list[tuple[bytes, bytes]]:
    """``x-ratelimit-*`` for each limit there is."""
    found: list[tuple[bytes, bytes]] = []
    for kind, level in ((b"requests", standing.requests), (b"tokens", standing.tokens)):
        if level is not None:
            found += _of(kind, level)
    return found


def _of(kind: bytes, level: Level) -> list[tuple[bytes, bytes]]:
    found = [
        (b"x-ratelimit-limit-" + kind, b"%d" % level.limit),
        (b"x-ratelimit-remaining-" + kind, b"%d" % level.remaining),
    ]
    if level.reset < NEVER:
        found.append((b"x-ratelimit-reset-" + kind, duration(level.reset).encode()))
    return found


def duration(ns: int) -> str:
    """A time as SDKs read it, never too short: ``120ms``, ``1.5s``, ``6m0s``, ``1h0m0s``."""
    millis = -(-ns // MS)
    if 0 < millis < 1000:
        return f"{millis}ms"
    seconds, rest = divmod(millis, 1000)
    tail = f"{seconds % 60}.{rest:03}".rstrip("0").rstrip(".") + "s"
    minutes, hours = seconds // 60 % 60, seconds // 3600
    if hours:
        return f"{hours}h{minutes}m{tail}"
    return f"{minutes}m{tail}" if minutes else tail


def limited(denied: Denied) -> GatewayError:
    """The 429. Rounded up to the ms, so that the time it names is never too short."""
    if denied.retry_after is None:
        return GatewayError(denied.reason, retry_after=BLOCKED_S, retry=False)
    return GatewayError(denied.reason, retry_after=-(-denied.retry_after // MS) / 1000)
