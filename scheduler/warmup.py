"""A first request of our own to a replica, before urgent ones come.

A server that says it is ready may still have to load a model, compile, or fill its caches
when the first request comes; and some say so and answer nothing. No caller's urgent request
should be the one that finds out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from .core.fleet import ModelFacts, ReplicaFacts
from .core.policy import Failover
from .engines import engine
from .gateway.upstream import Upstream

log = logging.getLogger(__name__)

BUSY = frozenset({429, 503})


class WarmUp:
    """``models`` and ``limits`` give what is known and valid when it is needed."""

    def __init__(
        self,
        client: Upstream,
        models: Callable[[], Mapping[str, ModelFacts]],
        limits: Callable[[], Failover],
    ) -> None:
        self._client = client
        self._models = models
        self._limits = limits

    async def __call__(self, facts: ReplicaFacts) -> bool:
        """One token of each model that writes text; whether all were answered. An answer that
        it does not know such a request is one."""
        bodies = list(self._bodies(facts))
        return all(await asyncio.gather(*(self._one(facts, body) for body in bodies)))

    async def _one(self, facts: ReplicaFacts, body: dict[str, object]) -> bool:
        within = self._limits().first_byte_ms / 1000
        path = engine(facts.engine).path("chat")
        status = await self._client.status(facts, path, body, within=within)
        return status is not None and status < 500 and status not in BUSY

    def _bodies(self, facts: ReplicaFacts) -> Iterator[dict[str, object]]:
        known = self._models()
        if not engine(facts.engine).chats:
            return
        for public, served in sorted(facts.models.items()):
            model = known.get(public)
            if model is None or model.generative:
                said = [{"role": "user", "content": "Hello"}]
                yield {"model": served, "messages": said, "max_tokens": 1}
