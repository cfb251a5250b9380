"""One emulated server, and how its command line says so."""

import argparse
from dataclasses import dataclass, field

from .engine import ServiceModel

DEFAULT_MODEL = "org/Model-7B"


@dataclass(frozen=True, slots=True)
class Settings:
    """``models`` are the names it answers to; ``max_model_len`` tokens of prompt and answer;
    ``details``: cached tokens are reported; ``dimensions`` of an embedding; ``memory_gb`` of
    the card; ``keep`` requests are remembered; it is ready after ``load_s``; KV cache events
    are published on the port ``kv_events`` (0: a free one; None: not at all)."""

    service: ServiceModel = field(default_factory=ServiceModel)
    models: tuple[str, ...] = (DEFAULT_MODEL,)
    max_model_len: int = 8192
    details: bool = True
    dimensions: int = 64
    memory_gb: float = 24.0
    keep: int = 100
    load_s: float = 0.0
    kv_events: int | None = None

    def check(self) -> None:
        """Raises ValueError for a card that could not run anything."""
        if self.service.slots < 1:
            raise ValueError("slots must be at least 1")
        if self.service.kv_tokens < self.max_model_len:
            raise ValueError(
                f"kv-tokens ({self.service.kv_tokens}) must hold one request of "
                f"max-model-len ({self.max_model_len})"
            )


@dataclass(frozen=True, slots=True)
class Command:
    """The command line: where to listen and what to be."""

    host: str
    port: int
    print_port: bool
    settings: Settings


def parse_command(argv: list[str] | None = None) -> Command:
    """Exits with usage where the command line makes no sense."""
    parser = _parser()
    args = parser.parse_args(argv)
    service = ServiceModel(
        slots=args.slots,
        kv_tokens=args.kv_tokens,
        prefill_tokens_per_s=args.prefill_tokens_per_s,
        step_base_ms=args.step_base_ms,
        step_per_running_ms=args.step_per_running_ms,
        jitter=args.jitter,
        seed=args.seed,
        by_priority=args.scheduling_policy == "priority",
    )
    settings = Settings(
        service=service.sped_up(args.speed),
        models=tuple(args.model or [DEFAULT_MODEL]),
        max_model_len=args.max_model_len,
        details=args.enable_prompt_tokens_details,
        dimensions=args.embedding_dimensions,
        memory_gb=args.memory_gb,
        keep=args.keep_requests,
        load_s=args.load_s,
        kv_events=args.kv_events,
    )
    try:
        settings.check()
    except ValueError as error:
        parser.error(str(error))
    return Command(args.host, args.port, args.print_port, settings)


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be more than 0")
    return value


def _whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m scheduler.emulator",
        description="Behave like vLLM on a GPU of a given size. There is no model behind it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on")
    add("--port", type=int, default=9001, help="0 takes a free one")
    add("--print-port", action="store_true", help="say 'listening on URL' on standard output")
    add("--model", action="append", help=f"a name to answer to, repeatable ({DEFAULT_MODEL})")
    add("--slots", type=_whole, default=8, help="sequences at once (max_num_seqs)")
    add("--kv-tokens", type=_whole, default=200_000, help="tokens held at once")
    add("--prefill-tokens-per-s", type=_positive, default=9000.0, help="shared by all")
    add("--step-base-ms", type=_positive, default=11.0, help="time of a step")
    add("--step-per-running-ms", type=float, default=0.55, help="more per running sequence")
    add("--max-model-len", type=_whole, default=8192, help="tokens of prompt and answer")
    add("--speed", type=_positive, default=1.0, help="how many times as fast")
    add("--jitter", type=float, default=0.0, help="step times vary by this ratio")
    add("--seed", type=int, default=0, help="of the jitter")
    add("--scheduling-policy", choices=["fcfs", "priority"], default="fcfs", help="of the queue")
    add(
        "--enable-prompt-tokens-details",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="report cached tokens",
    )
    add("--embedding-dimensions", type=_whole, default=64, help="of a vector")
    add("--memory-gb", type=_positive, default=24.0, help="of the card, for its gauges")
    add("--keep-requests", type=_whole, default=100, help="requests shown in /emulator/state")
    add("--kv-events", type=int, metavar="PORT", help="publish KV cache events; 0: a free port")
    add("--load-s", type=float, default=0.0, help="/health says 503 for so long")
    return parser
