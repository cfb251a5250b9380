"""Fixtures that give tests a model server."""

from collections.abc import Iterator

import pytest

from .engines import EngineProcess, emulator_process, llama_process


@pytest.fixture(scope="session")
def llama_server() -> Iterator[EngineProcess]:
    """The real llama.cpp server, one for the session: two slots of 4,096 tokens."""
    with llama_process() as server:
        yield server


@pytest.fixture
def emulator_server() -> Iterator[EngineProcess]:
    """An emulator process of the default size."""
    with emulator_process() as server:
        yield server
