"""The server, one for the session. ``FAIRLANE_VLLM`` names the folder with its environment."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .server import VllmServer, vllm_server


@pytest.fixture(scope="session")
def vllm() -> Iterator[VllmServer]:
    """A real vLLM with the small real model: at most four requests at once."""
    with vllm_server(Path(os.environ["FAIRLANE_VLLM"]).resolve()) as server:
        yield server
