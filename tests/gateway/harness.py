"""A real gateway on a real server in the test's own loop, over ports held in memory."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import httpx
from channels.layers import InMemoryChannelLayer
from granian.constants import Interfaces
from granian.server.embed import Server

from metering.core.facts import BusinessFacts
from metering.core.usage import UsageRow
from scheduler.core.fleet import ModelFacts, ReplicaFacts
from scheduler.core.policy import Policy
from scheduler.runtime import Runtime
from scheduler.testing import Memory, MemoryUsage

KEY = "fl_live_ownerkeyownerkeyownerkey"
URGENT_KEY = "fl_live_urgentkeyurgentkeyurgent"
LOW_KEY = "fl_live_lowkeylowkeylowkeylowkeylo"


class WallClock:
    """The machine's clock."""

    def now(self) -> int:
        return time.time_ns()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Gate:
    """A gateway that runs, and handles on its inside."""

    url: str
    runtime: Runtime
    memory: Memory
    usage: MemoryUsage
    client: httpx.AsyncClient

    def headers(self, key: str = KEY) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    async def chat(self, *, key: str = KEY, headers: dict[str, str] | None = None, **body: object):
        """One plain chat call."""
        body = {"model": "chat", "messages": [{"role": "user", "content": "hello"}], **body}
        return await self.client.post(
            "/v1/chat/completions", json=body, headers={**self.headers(key), **(headers or {})}
        )

    def stream(self, *, key: str = KEY, headers: dict[str, str] | None = None, **body: object):
        """A streamed chat call, as httpx's context manager."""
        body = {
            "model": "chat",
            "messages": [{"role": "user", "content": "hello"}],
            "stream": True,
            **body,
        }
        return self.client.stream(
            "POST",
            "/v1/chat/completions",
            json=body,
            headers={**self.headers(key), **(headers or {})},
        )

    async def until(self, condition: Callable[[], bool], within: float = 5.0) -> float:
        """Wait for a condition; returns the seconds it took, fails when it takes too long."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > within:
                raise AssertionError(f"not within {within} s")
            await asyncio.sleep(0.005)
        return time.monotonic() - start

    async def rows(self, count: int, within: float = 5.0) -> list[UsageRow]:
        """The usage rows, as soon as there are ``count``."""
        await self.until(lambda: len(self.usage.rows) >= count, within)
        return self.usage.rows

    @property
    def idle(self) -> bool:
        """Nothing runs, waits or is held anywhere."""
        state = self.runtime.scheduler.state
        return (
            not state.requests
            and not self.runtime.scheduler.calls
            and not self.runtime.gateway.exchanges
            and all(r.running == 0 and r.kv_used == 0 for r in state.replicas.values())
            and all(t.running == 0 and t.queued == 0 for t in state.tenants.values())
            and state.lane_queued == [0, 0, 0]
            and state.lane_running == [0, 0, 0]
            and self.runtime.gateway.bodies.held == 0
        )


def replica(
    url: str,
    *,
    name: str = "r1",
    engine: str = "vllm",
    slots: int = 4,
    served: str = "chat",
    **more: object,
) -> ReplicaFacts:
    """A replica that serves public model ``chat`` under the name ``served``."""
    return ReplicaFacts(name, url, engine, "pool", slots, models={"chat": served}, **more)


def furnished(*replicas: ReplicaFacts, policy: Policy | None = None) -> Memory:
    """Three businesses, one a lane (P1 is the default key's), one model, the replicas."""
    memory = Memory()
    memory.business(BusinessFacts("owner", grade="premium", ceiling=1, tags={"team-a"}), KEY)
    memory.business(
        BusinessFacts("urgent", grade="vip", ceiling=0, realtime="high", billing_sla=True),
        URGENT_KEY,
    )
    memory.business(BusinessFacts("low", grade="basic", ceiling=2, offline=True), LOW_KEY)
    memory.model(ModelFacts("chat"))
    for facts in replicas:
        memory.replica(facts)
    if policy is not None:
        memory.rules = policy
    return memory


@contextlib.asynccontextmanager
async def gate(
    memory: Memory, *, max_body: int = 1024 * 1024, metrics_token: str = "", grace: float = 2.0
) -> AsyncIterator[Gate]:
    """Run a gateway on a free port until the block ends; it must be at rest by then."""
    usage = MemoryUsage()
    runtime = Runtime(
        clock=WallClock(),
        credentials=memory,
        fleet=memory,
        policy=memory,
        changes=memory,
        usage=usage,
        layer=InMemoryChannelLayer(),
        pepper=memory.pepper,
        max_body=max_body,
        metrics_token=metrics_token,
        address_allowed=lambda address: True,
        url_allowed=lambda url: True,
    )

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await runtime.gateway(scope, receive, send)

    port = free_port()
    server = Server(
        app, address="127.0.0.1", port=port, interface=Interfaces.ASGINL, log_enabled=False
    )
    serving = asyncio.create_task(server.serve())
    await runtime.start()
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as client:
        running = Gate(url, runtime, memory, usage, client)
        await running.until(lambda: runtime.gateway.ready)
        await _listening(port)
        try:
            yield running
        finally:
            await runtime.stop(grace)
            server.stop()
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
