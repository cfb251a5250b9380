"""The gateway's ASGI application: routes, small endpoints, and the sweep over open requests."""

import asyncio
import contextlib
import hmac
import ipaddress
import logging
from collections.abc import Awaitable, Callable

import msgspec

from metering.core.credentials import jwks
from metering.core.facts import AccessSnapshot
from metering.core.usage import UsageRow
from scheduler.actor import Scheduler
from scheduler.core.fleet import FleetSnapshot
from scheduler.core.policy import Failover, Policy
from scheduler.escalations import Escalations
from scheduler.limits import Typical
from scheduler.ports import AnswerStore, Clock, Limiter, UsageSink
from scheduler.stats import Stats

from .asgi_types import JSON, Receive, Scope, Send, respond
from .callers import Caller, authenticate
from .credentials import CredentialVerifier
from .errors import GatewayError
from .exchange import GONE, Exchange
from .ids import RequestIds
from .incoming import BodyBudget, Incoming, discard_body, read_headers
from .repeats import Repeats
from .ruling import Rules
from .slots import Slots
from .upstream import Upstream
from .usage import CacheReports

log = logging.getLogger(__name__)

OPERATIONS = {
    "/v1/chat/completions": "chat",
    "/v1/completions": "text_completion",
    "/v1/embeddings": "embeddings",
}
SWEEP_S = 0.25
LAST_WORDS_S = 2.0
PREFIXES = ("/v1/", "/v2/", "/healthz", "/readyz", "/metrics", "/.well-known/jwks.json")


def _set() -> asyncio.Event:
    found = asyncio.Event()
    found.set()
    return found


class Gateway:
    """Everything a request needs, held in memory; no database on the way."""

    def __init__(
        self,
        *,
        scheduler: Scheduler,
        upstream: Upstream,
        usage: UsageSink,
        limiter: Limiter,
        answers: AnswerStore,
        escalations: Escalations,
        clock: Clock,
        stats: Stats,
        pepper: bytes,
        max_body: int,
        metrics_token: str,
    ) -> None:
        self.scheduler = scheduler
        self.upstream = upstream
        self.slots = Slots(upstream)
        self.reports = CacheReports()
        self.usage = usage
        self.limiter = limiter
        self.escalations = escalations
        # Before anything is known: output tokens, and GPU-seconds, of one request.
        self.typical = Typical(512)
        self.typical_gpu = Typical(1.0)
        self.clock = clock
        self.stats = stats
        self.pepper = pepper
        self.bodies = BodyBudget(max_body, 16 * max_body)
        self._ids = RequestIds(clock)
        self.repeats = Repeats(answers, self.bodies, clock, self._ids)
        self.verifier = CredentialVerifier()
        self.access, self.fleet, self.rules = AccessSnapshot(), FleetSnapshot(), Rules()
        self.ready = self.stopping = False
        self.exchanges: set[Exchange] = set()
        # The loop's time of the last byte that came from each replica's URL.
        self.heard: dict[str, float] = {}
        self._idle = _set()
        self.before_metrics: Callable[[], None] = lambda: None
        self._metrics_token = metrics_token
        self._sweeper: asyncio.Task[None] | None = None
        self._retiring: asyncio.Task[None] | None = None
        self._routes: dict[tuple[str, str], Callable[[Scope, Send], Awaitable[None]]] = {
            ("GET", "/healthz"): self._healthz,
            ("GET", "/readyz"): self._readyz,
            ("GET", "/metrics"): self._metrics,
            ("GET", "/v1/models"): self._models,
            ("GET", "/.well-known/jwks.json"): self._jwks,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one HTTP request."""
        path, method = scope["path"], scope["method"]
        if method == "HEAD":
            method = "GET"  # the server leaves the body out
        operation = OPERATIONS.get(path)
        try:
            if operation is not None and method == "POST":
                await self._inference(scope, receive, send, operation)
                return
            route = self._routes.get((method, path))
            if route is not None:
                await route(scope, send)
                return
            if operation is not None or any(known == path for _, known in self._routes):
                raise GatewayError("method_not_allowed", f"{method} is not allowed here.")
            if path.startswith("/v1/models/") and method == "GET":
                await self._model(scope, send, path.removeprefix("/v1/models/"))
                return
            raise GatewayError("not_found", f"Unknown path: {method} {path[:200]}")
        except GatewayError as error:
            made = (b"x-request-id", self._ids.new().encode())
            await respond(send, error.status, error.body(), [JSON, made, *error.headers()])
            await discard_body(receive)

    @property
    def policy(self) -> Policy:
        """The active policy. A request's own is its ruling's."""
        return self.rules.policy

    @property
    def policy_version(self) -> int:
        """The number of the active policy."""
        return self.rules.version

    async def start(self) -> None:
        """Begin the sweep. The loop must run."""
        await self.upstream.start()
        self._sweeper = asyncio.create_task(self._sweep(), name="gateway sweep")

    async def retire(self, grace: float) -> None:
        """Refuse what comes and what waits, let running requests end within ``grace`` seconds.
        Begun once: whoever asks again waits for the same end."""
        if self._retiring is None:
            self._retiring = asyncio.create_task(self._retire(grace), name="gateway retiring")
        await asyncio.shield(self._retiring)

    async def stop(self, grace: float) -> None:
        """Retire, then let go of the replicas."""
        await self.retire(grace)
        if self._sweeper is not None:
            self._sweeper.cancel()
        await self.repeats.close()
        await self.slots.close()
        await self.upstream.close()

    async def _retire(self, grace: float) -> None:
        self.drain()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await self._idle.wait()
        for exchange in list(self.exchanges):
            exchange.interrupt("shutting_down")
        with contextlib.suppress(TimeoutError):
            # A caller that reads nothing can't keep us.
            async with asyncio.timeout(LAST_WORDS_S):
                await self._idle.wait()

    def forget_heard(self, urls: set[str]) -> None:
        """Keep what was heard of these replicas alone."""
        for url in self.heard.keys() - urls:
            del self.heard[url]

    def drain(self) -> None:
        """Readiness off; what waits for a slot is told to come back."""
        self.stopping = True
        for exchange in list(self.exchanges):
            if exchange.queued:
                exchange.interrupt("shutting_down")

    def _authenticate(self, incoming: Incoming) -> Caller:
        """Who calls, by what is valid at this date. Raises GatewayError."""
        return authenticate(incoming, self.access, self.pepper, self.clock.wall(), self.verifier)

    async def _inference(self, scope: Scope, receive: Receive, send: Send, operation: str) -> None:
        received = self.clock.now()
        incoming = read_headers(scope["headers"])
        caller = self._authenticate(incoming)

        async def run(request: str, receive: Receive, send: Send) -> Exchange:
            row = _row(request, received, incoming, caller, operation)
            exchange = Exchange(self, incoming, caller, operation, row, receive, send)
            await self._run(exchange)
            return exchange

        if incoming.idempotency_key:
            await self.repeats.serve(incoming, caller, operation, receive, send, run)
            return
        exchange = await run(self._ids.new(), receive, send)
        if exchange.unread:
            await discard_body(receive)

    async def _run(self, exchange: Exchange) -> None:
        self.exchanges.add(exchange)
        self._idle.clear()
        try:
            await exchange.run()
        finally:
            self.exchanges.discard(exchange)
            if not self.exchanges:
                self._idle.set()

    async def _sweep(self) -> None:
        """What a request needs that lasts: an eye on its caller, comments on a stream that
        waits, an end to an attempt that has gone silent."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            now = loop.time()
            self.limiter.renew([exchange.row.id for exchange in self.exchanges])
            for exchange in list(self.exchanges):
                exchange.watch()
                if self.rules.trial is not None:
                    self.rules.waits(exchange.ruling, exchange.row, self.clock.now())
                if exchange.waits:
                    self._keep_alive(exchange, now)
                self._mind_silence(exchange, now, exchange.ruling.policy.failover)

    @staticmethod
    def _mind_silence(exchange: Exchange, now: float, limits: Failover) -> None:
        attempts = exchange.attempts
        unheard = "" if attempts is None else attempts.unheard(now, limits)
        if attempts is None or not unheard:
            return
        if unheard == "caller":
            exchange.interrupt(GONE)
        elif not attempts.abandon(gone=unheard == "gone") and unheard == "replica":
            exchange.interrupt("upstream_timeout")

    def _keep_alive(self, exchange: Exchange, now: float) -> None:
        reply, policy = exchange.reply, exchange.ruling.policy
        if reply.started:
            due = now - reply.commented >= policy.keepalive_s - 2 * SWEEP_S
        else:
            due = now - exchange.began >= policy.header_hold_s
        if due:
            reply.comment(f"waiting in {exchange.row.lane}", now)

    async def _healthz(self, scope: Scope, send: Send) -> None:
        await respond(send, 200, b'{"status":"ok"}')

    async def _readyz(self, scope: Scope, send: Send) -> None:
        ready = self.ready and not self.stopping
        body = msgspec.json.encode(
            {
                "status": "ready" if ready else "stopping" if self.stopping else "starting",
                "access": self.access.version,
                "fleet": self.fleet.version,
                "policy": self.policy_version,
            }
        )
        await respond(send, 200 if ready else 503, body)

    async def _metrics(self, scope: Scope, send: Send) -> None:
        """From loopback, or with the token."""
        given = ""
        for name, value in scope["headers"]:
            if name == b"authorization":
                given = value.decode("latin-1").removeprefix("Bearer ").strip()
        token = self._metrics_token
        by_token = bool(token) and hmac.compare_digest(given.encode(), token.encode())
        if not by_token and not _is_loopback(scope):
            raise GatewayError("not_found", "Unknown path: GET /metrics")
        self.before_metrics()
        kind = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
        await respond(send, 200, self.stats.metrics.text(), [kind])

    async def _jwks(self, scope: Scope, send: Send) -> None:
        """The public keys of tier credentials, for whoever verifies offline."""
        body = msgspec.json.encode(jwks(self.access.signing_keys))
        await respond(send, 200, body, [JSON, (b"cache-control", b"public, max-age=300")])

    async def _models(self, scope: Scope, send: Send) -> None:
        caller = self._authenticate(read_headers(scope["headers"]))
        data = [self._entry(name) for name in sorted(self.fleet.models) if _may(caller, name)]
        await respond(send, 200, msgspec.json.encode({"object": "list", "data": data}))

    async def _model(self, scope: Scope, send: Send, name: str) -> None:
        caller = self._authenticate(read_headers(scope["headers"]))
        if name not in self.fleet.models or not _may(caller, name):
            raise GatewayError(
                "model_not_found", f"The model '{name}' does not exist.", param="model"
            )
        await respond(send, 200, msgspec.json.encode(self._entry(name)))

    @staticmethod
    def _entry(name: str) -> dict[str, object]:
        return {"id": name, "object": "model", "created": 0, "owned_by": "fairlane"}


def _row(
    request: str, received: int, incoming: Incoming, caller: Caller, operation: str
) -> UsageRow:
    return UsageRow(
        id=request,
        business=caller.business.name,
        key_prefix="" if caller.key is None else caller.key.prefix,
        credential="" if caller.credential is None else caller.credential.jti,
        operation=operation,
        received=received,
        client_request_id=incoming.request_id,
        trace_id=incoming.trace_id,
    )


def _may(caller: Caller, model: str) -> bool:
    return caller.business.models is None or model in caller.business.models


def _is_loopback(scope: Scope) -> bool:
    """Whether the peer is this machine; a proxy's forwarding headers prove the contrary."""
    if any(name in (b"x-forwarded-for", b"forwarded") for name, _ in scope["headers"]):
        return False
    client: tuple[str, int] | None = scope.get("client")
    try:
        return client is not None and ipaddress.ip_address(client[0]).is_loopback
    except ValueError:
        return False
