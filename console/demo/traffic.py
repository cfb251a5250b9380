"""``python -m console.demo.traffic DEMO_FILE MODEL...``: light traffic of the demo businesses.

It goes through the real gateway with the demo's own keys, like anybody's. Arrivals are
random (exponential gaps), about four requests a second in all, and now and then a batch of
offline work arrives at once, so that queues form and empty again.
"""

import asyncio
import random
import signal
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from .record import DemoRecord, read_record

REQUEST_TIMEOUT_S = 120.0
OUTAGE_PAUSE_S = 2.0
# The most requests of one business under way at once: traffic must stay light even when
# nothing is answered.
UNDER_WAY = 24
# Other models than the first may be real ones, on the very processors that all this runs on.
OTHER_MODEL_SHARE = 0.04

TEXT = (
    "review this payment of the last hour and say whether the pattern looks like fraud or a "
    "known customer travelling abroad summarise the contract clause on liability in plain "
    "language explain the stack trace and propose a fix for the failing test grade the answer"
)
WORDS = TEXT.split()


@dataclass(frozen=True, slots=True)
class Profile:
    """How one business calls: seconds between arrivals (mean), requests per arrival, words of
    prompt, tokens of answer, and the share of calls that are streamed."""

    gap_s: float
    burst: tuple[int, int] = (1, 1)
    words: tuple[int, int] = (20, 80)
    tokens: tuple[int, int] = (16, 64)
    streamed: float = 0.8


PROFILES = {
    "risk-audit": Profile(gap_s=0.8, words=(20, 60), tokens=(8, 32)),
    "live-service": Profile(gap_s=1.0, words=(10, 60), tokens=(24, 96), streamed=1.0),
    "doc-qa": Profile(gap_s=1.4, words=(150, 600), tokens=(32, 128)),
    "code-assist": Profile(gap_s=1.4, words=(100, 400), tokens=(32, 160), streamed=1.0),
    "offline-eval": Profile(
        gap_s=25.0, burst=(10, 24), words=(50, 200), tokens=(64, 256), streamed=0.0
    ),
}
OTHER = Profile(gap_s=5.0)


class Caller:
    """The traffic of one business until cancelled."""

    def __init__(
        self, client: httpx.AsyncClient, name: str, key: str, models: list[str], seed: int
    ) -> None:
        self._client = client
        self._profile = PROFILES.get(name, OTHER)
        self._headers = {"Authorization": f"Bearer {key}"}
        self._models = models
        self._random = random.Random(seed)  # noqa: S311 - no secrets

    async def run(self) -> None:
        """Arrive at random times, answers or no answers."""
        under_way: set[asyncio.Task[None]] = set()
        try:
            while True:
                await asyncio.sleep(self._random.expovariate(1 / self._profile.gap_s))
                for _ in range(self._random.randint(*self._profile.burst)):
                    if len(under_way) < UNDER_WAY:
                        task = asyncio.create_task(self.call())
                        under_way.add(task)
                        task.add_done_callback(under_way.discard)
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    async def call(self) -> None:
        """One request, read to its end. Refusals are part of the picture and no error."""
        model, profile = self._models[0], self._profile
        if self._random.random() < OTHER_MODEL_SHARE and len(self._models) > 1:
            model, profile = self._models[-1], replace(profile, words=(6, 20), tokens=(8, 24))
        words = self._random.choices(WORDS, k=self._random.randint(*profile.words))
        body = {
            "model": model,
            "messages": [{"role": "user", "content": " ".join(words)}],
            "max_tokens": self._random.randint(*profile.tokens),
            "stream": self._random.random() < profile.streamed,
        }
        try:
            async with self._client.stream(
                "POST", "/v1/chat/completions", json=body, headers=self._headers
            ) as answer:
                async for _ in answer.aiter_bytes():
                    pass
        except httpx.HTTPError:
            # The gateway is away or stopping.
            await asyncio.sleep(OUTAGE_PAUSE_S)


async def run(record: DemoRecord, models: list[str], seed: int | None = None) -> None:
    """All businesses of ``record``, asking for ``models``, until cancelled."""
    source = random.Random(seed)  # noqa: S311 - no secrets
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=32)
    async with (
        httpx.AsyncClient(
            base_url=record.gateway_url, timeout=REQUEST_TIMEOUT_S, limits=limits, trust_env=False
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        for name, key in record.keys.items():
            caller = Caller(client, name, key, models, source.getrandbits(32))
            group.create_task(caller.run())


async def main(path: Path, models: list[str]) -> int:
    """Until SIGTERM or SIGINT; 1 where there is no demo to use."""
    record = read_record(path)
    if record is None:
        sys.stderr.write(f"fairlane: {path} holds no demo\n")
        return 1
    task = asyncio.create_task(run(record, models))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(sys.argv[1]), sys.argv[2:])))
