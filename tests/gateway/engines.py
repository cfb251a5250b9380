"""A gateway in front of a model server that runs as a process of its own."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from scheduler.core.fleet import ReplicaFacts
from scheduler.core.policy import Policy
from tests.support.engines import EngineProcess

from .harness import Gate, furnished, gate


@dataclass(frozen=True)
class Served:
    """A model server, and how Fairlane is told of it."""

    server: EngineProcess
    facts: ReplicaFacts

    @property
    def real(self) -> bool:
        """Whether there is a model behind it."""
        return self.facts.engine == "llamacpp"

    @contextlib.asynccontextmanager
    async def gate(self, policy: Policy | None = None) -> AsyncIterator[Gate]:
        """A gateway with this replica and no other."""
        async with gate(furnished(self.facts, policy=policy)) as running:
            # The first answer of a real model may wait for its prompt to be read.
            running.client.timeout = 60
            yield running


def served(server: EngineProcess, engine: str, slots: int) -> Served:
    """The server as a replica that serves public model ``chat``."""
    facts = ReplicaFacts("engine", server.url, engine, "pool", slots)
    return Served(server, replace(facts, models={"chat": server.model}))
