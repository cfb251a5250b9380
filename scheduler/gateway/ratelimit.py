"""A request and its caller's limits: what it takes of them, and what the caller is told."""

import asyncio
from typing import TYPE_CHECKING

from metering.core.bucket import NEVER
from metering.core.facts import LANES
from metering.core.prices import is_billed
from metering.core.usage import Consumed, UsageRow
from scheduler.core.policy import Policy
from scheduler.ports import Ask, Denied, Grant, Level

from .callers import Caller
from .errors import GatewayError
from .payload import Payload

if TYPE_CHECKING:
    from .app import Gateway

MS = 1_000_000
# Ends that count as a request made, even without a token: the replica had its work with it.
SERVED = ("ok", "client_error", "client_disconnect")


class Reservation:
    """One request's hold on its caller's limits: taken once, settled once."""

    __slots__ = ("_gateway", "_held", "_row")

    def __init__(self, gateway: "Gateway", row: UsageRow) -> None:
        self._gateway = gateway
        self._row = row
        self._held: Grant | Denied | None = None

    async def take(
        self, caller: Caller, payload: Payload, policy: Policy, *, generative: bool
    ) -> None:
        """Take what the request may come to, or nothing; then wait for a running place of its
        key, where that has as many as it may, as long as its own rules allow. Raises the 429."""
        gateway, row = self._gateway, self._row
        name, model = caller.business.name, payload.model
        output = payload.output_tokens
        if not output and generative:
            output = round(gateway.typical.of(name, model))
        ask = Ask(
            request=row.id,
            business=name,
            key=b"" if caller.key is None else caller.key.digest,
            # Beside a key a credential narrows; as the bearer it has limits of its own.
            credential=caller.credential.jti if caller.credential and caller.key is None else "",
            model=model,
            lane=LANES.index(row.lane),
            expected=Consumed(
                prompt=payload.prompt_tokens,
                completion=output * payload.choices,
                gpu_seconds=gateway.typical_gpu.of(name, model),
            ),
        )
        self._held = held = await gateway.limiter.reserve(ask)
        if isinstance(held, Denied):
            raise _refusal(held)
        if held.waits:
            await self._turn(held, policy)

    async def _turn(self, held: Grant, policy: Policy) -> None:
        """Wait as long as the request's lane allows. Raises the 429."""
        gateway, row = self._gateway, self._row
        limit = policy.queue(LANES.index(row.lane)).queue_timeout_ms / 1000
        waited = (gateway.clock.now() - row.received) / 1e9
        try:
            async with asyncio.timeout(max(0.0, limit - waited)):
                await held.turn()
        except TimeoutError:
            again = held.again() / 1e9
            self.settle(row)
            raise GatewayError("queue_timeout", retry_after=again) from None

    def settle(self, row: UsageRow, choices: int = 1) -> None:
        """Hold the limits to what the request came to; nothing produced costs nothing."""
        held = self._held
        if held is None or isinstance(held, Denied):
            return
        tokens = row.prompt_tokens + row.completion_tokens
        served = row.dispatched and row.status in SERVED
        used = Consumed(
            row.prompt_tokens,
            row.cached_tokens,
            row.completion_tokens,
            row.gpu_seconds,
            counted=bool(tokens or served),
            billed=is_billed(row.status, bool(row.dispatched), row.completion_tokens),
        )
        held.settle(used, row.degraded_to)
        if row.status == "ok":
            business, model = row.business, row.model
            if row.completion_tokens:
                each = row.completion_tokens // choices
                self._gateway.typical.add(business, model, each)
            self._gateway.typical_gpu.add(business, model, row.gpu_seconds)

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
        return GatewayError(denied.reason)
    # A month is longer than any client should sleep, and a budget may be raised before.
    retry = denied.reason != "budget_exhausted"
    return GatewayError(denied.reason, retry_after=-(-denied.retry_after // MS) / 1000, retry=retry)


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
