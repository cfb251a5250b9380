"""A real gateway on a real server in the test's own loop, over ports held in memory."""

import asyncio
import contextlib
import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

import httpx
from channels.layers import InMemoryChannelLayer
from granian.constants import Interfaces
from granian.server.embed import Server

from metering.core.facts import BusinessFacts
from metering.core.usage import UsageRow
from scheduler.addresses import Network
from scheduler.clock import SystemClock
from scheduler.core.fleet import ModelFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.gateway.asgi_types import Receive, Scope, Send
from scheduler.ports import AnswerStore, Clock, Recall, Scaler
from scheduler.runtime import Runtime
from scheduler.scaling import NoScaler
from scheduler.testing import (
    Memory,
    MemoryAnswers,
    MemoryAudit,
    MemoryBooks,
    MemoryDecisions,
    MemoryUsage,
)

from .raw import CHAT, RawClient, raw

KEY = "fl_live_ownerkeyownerkeyownerkey"
URGENT_KEY = "fl_live_urgentkeyurgentkeyurgent"
LOW_KEY = "fl_live_lowkeylowkeylowkeylowkeylo"

EVERYWHERE = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
TURN_S = 0.005
# What is waited for comes, on a slow machine late: long enough for the slowest, and shorter than
# the time limits (60 s) that would end what has to end by itself.
PATIENCE_S = 30.0
Body = dict[str, object]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def chat_body(prompt: str = "hello", **more: object) -> Body:
    """The body of a chat call."""
    return {"model": "chat", "messages": [{"role": "user", "content": prompt}], **more}


@dataclass
class Gate:
    """A gateway that runs, and handles on its inside."""

    url: str
    runtime: Runtime
    memory: Memory
    usage: MemoryUsage
    audit: MemoryAudit
    decisions: MemoryDecisions
    books: MemoryBooks
    client: httpx.AsyncClient

    def headers(self, key: str = KEY) -> dict[str, str]:
        """What authenticates a caller."""
        return {"authorization": f"Bearer {key}"}

    async def chat(
        self,
        prompt: str = "hello",
        *,
        key: str = KEY,
        headers: dict[str, str] | None = None,
        **body: object,
    ) -> httpx.Response:
        """One plain chat call."""
        given = {**self.headers(key), **(headers or {})}
        return await self.client.post(CHAT, json=chat_body(prompt, **body), headers=given)

    def stream(
        self,
        prompt: str = "hello",
        *,
        key: str = KEY,
        headers: dict[str, str] | None = None,
        **body: object,
    ) -> AbstractAsyncContextManager[httpx.Response]:
        """A streamed chat call, as httpx's context manager."""
        given = {**self.headers(key), **(headers or {})}
        whole = chat_body(prompt, stream=True, **body)
        return self.client.stream("POST", CHAT, json=whole, headers=given)

    async def streamed(self, prompt: str = "hello", *, key: str = KEY, **body: object) -> bytes:
        """The bytes of a whole streamed call."""
        async with self.stream(prompt, key=key, headers=None, **body) as response:
            return await response.aread()

    def raw(self) -> AbstractAsyncContextManager[RawClient]:
        """A bare connection to the gateway."""
        return raw(self.url)

    async def until(self, condition: Callable[[], object], within: float = PATIENCE_S) -> float:
        """Wait for a condition; returns the seconds it took, fails when it takes too long.

        Time is counted in turns of the loop: on a machine that gives this process no turn,
        what is waited for had none either.
        """
        start = time.monotonic()
        for _ in range(round(within / TURN_S)):
            if condition():
                return time.monotonic() - start
            await asyncio.sleep(TURN_S)
        raise AssertionError(f"not within {within} s")

    async def rest(self, within: float = PATIENCE_S) -> None:
        """Wait until nothing is held any more; says what is when that takes too long."""
        try:
            await self.until(lambda: not self.held, within)
        except AssertionError:
            raise AssertionError(f"still held after {within} s: {self.held}") from None

    async def rows(self, count: int, within: float = PATIENCE_S) -> list[UsageRow]:
        """The usage rows, as soon as there are ``count``."""
        await self.until(lambda: len(self.usage.rows) >= count, within)
        assert len(self.usage.rows) == count
        return self.usage.rows

    async def row(self) -> UsageRow:
        """The only usage row."""
        return (await self.rows(1))[0]

    def tell_policy(self, policy: Policy) -> None:
        """Other rules from now on."""
        self.memory.rules = policy
        self.memory.tell("policy")

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return sum(replica.running for replica in self.runtime.scheduler.state.replicas.values())

    @property
    def queued(self) -> int:
        """Requests that wait for one."""
        return sum(self.runtime.scheduler.state.lane_queued)

    @property
    def open_connections(self) -> int:
        """Connections to replicas that are in use."""
        session = self.runtime.gateway.upstream._session
        connector = session.connector if session is not None else None
        return len(connector._acquired) if connector is not None else 0

    @property
    def idle(self) -> bool:
        """Nothing runs, waits or is held anywhere."""
        return not self.held

    @property
    def held(self) -> list[str]:
        """What is not at rest."""
        scheduler, gateway = self.runtime.scheduler, self.runtime.gateway
        state = scheduler.state
        counts = {
            "requests": len(state.requests),
            "calls": len(scheduler.calls),
            "exchanges": len(gateway.exchanges),
            "slots": sum(r.running for r in state.replicas.values()),
            "KV tokens": sum(r.kv_used for r in state.replicas.values()),
            "running by business": sum(t.running for t in state.tenants.values()),
            "queued by business": sum(t.queued for t in state.tenants.values()),
            "queued": sum(state.lane_queued),
            "running": sum(state.lane_running),
            "body bytes": gateway.bodies.held,
            "connections": self.open_connections,
        }
        return [f"{count} {name}" for name, count in counts.items() if count]


def replica(
    url: str,
    *,
    name: str = "r1",
    engine: str = "vllm",
    slots: int = 4,
    served: str = "chat",
    token_file: str = "",
    engine_priority: bool = False,
) -> ReplicaFacts:
    """A replica that serves public model ``chat`` under the name ``served``."""
    return ReplicaFacts(
        name,
        url,
        engine,
        "pool",
        slots,
        models={"chat": served},
        token_file=token_file,
        engine_priority=engine_priority,
    )


def furnished(
    *replicas: ReplicaFacts, policy: Policy | None = None, warm_up: bool = False
) -> Memory:
    """Three businesses, one a lane (P1 is the default key's), one model, the replicas. These
    get no request but the test's own unless they are to be warmed up."""
    memory = Memory()
    owner = BusinessFacts("owner", grade="premium", ceiling=1, tags=frozenset({"team-a"}))
    memory.business(owner, KEY)
    memory.business(
        BusinessFacts("urgent", grade="vip", ceiling=0, realtime="high", billing_sla=True),
        URGENT_KEY,
    )
    memory.business(BusinessFacts("low", grade="basic", ceiling=2, offline=True), LOW_KEY)
    memory.model(ModelFacts("chat"))
    for facts in replicas:
        memory.replica(facts)
    rules = policy or Policy()
    cold_start = replace(rules.cold_start, warm_before_p0=warm_up)
    memory.rules = replace(rules, cold_start=cold_start)
    return memory


def limits(
    *,
    connect_ms: int = 2000,
    first_byte_ms: int = 60_000,
    idle_ms: int = 60_000,
    header_hold_s: float = 10.0,
    keepalive_s: float = 15.0,
) -> Policy:
    """The default policy with other time limits."""
    policy = Policy()
    failover = replace(
        policy.failover, connect_ms=connect_ms, first_byte_ms=first_byte_ms, idle_ms=idle_ms
    )
    return replace(policy, failover=failover, header_hold_s=header_hold_s, keepalive_s=keepalive_s)


def unbroken(policy: Policy | None = None) -> Policy:
    """The policy with breakers that never open, for tests of many failures, each for itself."""
    rules = policy or Policy()
    failover = replace(rules.failover, fail_threshold=1_000_000)
    tenants = replace(rules.tenant_breaker, min_requests=1_000_000)
    return replace(rules, failover=failover, tenant_breaker=tenants)


App = Callable[[Scope, Receive, Send], Awaitable[None]]


def alone(runtime: Runtime) -> App:
    """The gateway with nothing around it."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await runtime.gateway(scope, receive, send)

    return app


@contextlib.asynccontextmanager
async def gate(
    memory: Memory,
    *,
    max_body: int = 1024 * 1024,
    metrics_token: str = "",
    grace: float = 2.0,
    networks: Sequence[Network] = EVERYWHERE,
    composed: Callable[[Runtime], App] = alone,
    clock: Clock | None = None,
    books: MemoryBooks | None = None,
    answers: AnswerStore | None = None,
    scaler: Scaler | None = None,
    recall: Recall | None = None,
) -> AsyncIterator[Gate]:
    """Run a gateway on a free port until the block ends; it must come to rest by then.

    ``composed`` makes the served application, with whatever stands around the gateway. Without
    a ``clock`` it goes by the machine's.
    """
    usage, audit, decisions = MemoryUsage(), MemoryAudit(), MemoryDecisions()
    books = books or MemoryBooks()
    runtime = Runtime(
        clock=clock or SystemClock(),
        credentials=memory,
        fleet=memory,
        policy=memory,
        changes=memory,
        recall=recall or memory,
        usage=usage,
        books=books,
        answers=answers or MemoryAnswers(),
        audit=audit,
        decisions=decisions,
        scaler=scaler or NoScaler(),
        layer=InMemoryChannelLayer(),
        pepper=memory.pepper,
        max_body=max_body,
        metrics_token=metrics_token,
        networks=networks,
    )

    port = free_port()
    server = Server(
        composed(runtime),
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGINL,
        log_enabled=False,
        backpressure=10_000,
    )
    serving = asyncio.create_task(server.serve())
    await runtime.start()
    url = f"http://127.0.0.1:{port}"
    crowd = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False, limits=crowd) as client:
        running = Gate(url, runtime, memory, usage, audit, decisions, books, client)
        await running.until(lambda: runtime.gateway.ready)
        await _listening(port)
        try:
            yield running
            await running.rest()
        finally:
            await runtime.stop(grace)
            server.stop()  # type: ignore[no-untyped-call]
            await serving


async def _listening(port: int) -> None:
    for _ in range(500):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.01)
        else:
            writer.close()
            return
    raise AssertionError("the server did not come up")
