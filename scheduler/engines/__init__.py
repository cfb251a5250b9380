"""One adapter per model server."""

from .base import Engine
from .llamacpp import LlamaCpp
from .vllm import Vllm

__all__ = ["ENGINES", "Engine", "LlamaCpp", "Vllm", "engine"]

ENGINES: dict[str, Engine] = {adapter.name: adapter for adapter in (Engine(), LlamaCpp(), Vllm())}


def engine(name: str) -> Engine:
    """The adapter by name; servers without one of their own get the plain OpenAI one."""
    return ENGINES.get(name, ENGINES["openai"])
