"""What all gateway tests share."""

import ssl
from collections.abc import AsyncIterator, Iterator
from functools import lru_cache

import pytest

import scheduler.actor
from scheduler.core.fleet import ModelFacts
from scheduler.testing import Memory
from tests.support.engines import EngineProcess, emulator_process

from .engines import Served, served
from .harness import Gate, furnished, gate, replica
from .spying import Told, told
from .stub import Stub, stub
from .tripping import Tripping


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Each test makes two HTTP clients; reading the machine's certificates for each would take
    most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lru_cache(ssl.create_default_context))
        yield


@pytest.fixture(scope="session")
def two_slot_emulator() -> Iterator[EngineProcess]:
    """An emulated card of two slots, one for the session."""
    with emulator_process("--slots", "2") as server:
        yield server


@pytest.fixture
def emulator(two_slot_emulator: EngineProcess) -> Served:
    """The emulator as a replica of two slots."""
    return served(two_slot_emulator, "vllm", 2)


@pytest.fixture
def llama(llama_server: EngineProcess) -> Served:
    """The real llama.cpp server as a replica of two slots."""
    return served(llama_server, "llamacpp", 2)


@pytest.fixture(params=["emulator", pytest.param("llama", marks=pytest.mark.llama)])
def engine_server(request: pytest.FixtureRequest) -> Served:
    """One after the other: the emulator and a real engine."""
    found: Served = request.getfixturevalue(request.param)
    return found


@pytest.fixture
async def engine() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


@pytest.fixture
def memory(engine: Stub) -> Memory:
    memory = furnished(replica(engine.url))
    memory.model(ModelFacts("org/big model"))
    memory.model(ModelFacts("elsewhere"))
    return memory


@pytest.fixture
def tripping(monkeypatch: pytest.MonkeyPatch) -> Tripping:
    found = Tripping()
    monkeypatch.setattr(scheduler.actor, "step", found)
    return found


@pytest.fixture
async def running(memory: Memory) -> AsyncIterator[Gate]:
    async with gate(memory) as found:
        yield found


@pytest.fixture
def core() -> Iterator[Told]:
    """What the core of each gateway of the test is told."""
    with told() as found:
        yield found
