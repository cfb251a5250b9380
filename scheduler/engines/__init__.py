"""One adapter per model server."""

from .base import Engine, Names
from .llamacpp import LlamaCpp
from .oip import Oip
from .sglang import Sglang
from .tgi import Tgi
from .vllm import Vllm

__all__ = ["ENGINES", "Engine", "LlamaCpp", "Names", "Oip", "Sglang", "Tgi", "Vllm", "engine"]

ENGINES: dict[str, Engine] = {
    adapter.name: adapter for adapter in (Engine(), LlamaCpp(), Oip(), Sglang(), Tgi(), Vllm())
}


def engine(name: str) -> Engine:
    """The adapter by name; servers without one of their own get the plain OpenAI one."""
    return ENGINES.get(name, ENGINES["openai"])
