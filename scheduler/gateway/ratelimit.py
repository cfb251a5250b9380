"""A request and its caller's rates: what it takes of them, and what the caller is told."""

from metering.core.bucket import NEVER
from metering.core.usage import UsageRow
from scheduler.limits import TypicalOutput
from scheduler.ports import Denied, Grant, Level, Limiter

from .callers import Caller
from .errors import GatewayError
from .payload import Payload

MS = 1_000_000
# Somebody has to change the limit first.
BLOCKED_S = 3600.0
# Ends that count as a request made, even without a token: the replica had its work with it.
SERVED = ("ok", "client_error", "client_disconnect")


class Reservation:
    """One request's hold on its caller's rates: taken once, settled once."""

    __slots__ = ("_held", "_limiter", "_typical")

    def __init__(self, limiter: Limiter, typical: TypicalOutput) -> None:
        self._limiter = limiter
        self._typical = typical
        self._held: Grant | Denied | None = None

    async def take(self, caller: Caller, payload: Payload, *, generative: bool) -> None:
        """Take what the request may come to, or nothing. Raises the 429."""
        # Beside a key a credential narrows; as the bearer it has limits of its own.
        bearer = caller.credential.jti if caller.credential and caller.key is None else ""
        business = caller.business.name
        output = payload.output_tokens
        if not output and generative:
            output = self._typical.tokens(business, payload.model)
        tokens = payload.prompt_tokens + output * payload.choices
        self._held = held = await self._limiter.reserve(business, bearer, tokens)
        if isinstance(held, Denied):
            raise _refusal(held)

    def settle(self, row: UsageRow, choices: int = 1) -> None:
        """Hold the rates to what the request came to; nothing produced costs nothing."""
        held = self._held
        if held is None or isinstance(held, Denied):
            return
        tokens = row.prompt_tokens + row.completion_tokens
        served = row.dispatched and row.status in SERVED
        held.settle(tokens, counted=bool(tokens or served))
        if row.status == "ok" and row.completion_tokens:
            each = row.completion_tokens // choices
            self._typical.add(row.business, row.requested_model, each)

    def headers(self) -> list[tuple[bytes, bytes]]:
        """``x-ratelimit-*`` as things stand now, for each limit there is."""
        held = self._held
        if held is None:
            return []
        standing = held.standing if isinstance(held, Denied) else held.standing()
        found: list[tuple[bytes, bytes]] = []
        for kind, level in ((b"requests", standing.requests), (b"tokens", standing.tokens)):
            if level is not None:
                found += _of(kind, level)
        return found


def _refusal(denied: Denied) -> GatewayError:
    """The 429. Rounded up to the ms, so that the time it names is never too short."""
    if denied.retry_after is None:
        return GatewayError(denied.reason, retry_after=BLOCKED_S, retry=False)
    return GatewayError(denied.reason, retry_after=-(-denied.retry_after // MS) / 1000)


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
