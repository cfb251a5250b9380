"""``python -m scheduler.llama``: run the server until it is told to stop."""

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

from .library import (
    Library,
    LlamaUnavailableError,
    Params,
    Server,
    default_model,
    load_library,
)

# A prefill can only be stopped between two batches, so batches are small.
BATCH_TOKENS = 64
# The engine keeps prompts of idle slots in memory up to this size; its own default is 8 GiB.
PROMPT_CACHE_MIB = 256
ERRORS_ONLY = 1
SNAPSHOTS = "fairlane-*.bin"


def port_number(text: str) -> int:
    """A TCP port; the engine itself would take a number modulo 65536."""
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError("must be between 0 and 65535")
    return port


def whole_number(text: str) -> int:
    """A number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be a whole number of at least 1")
    return value


def default_threads() -> int:
    """Half the cores. The engine's threads wait for each other in a spin loop, so on a machine
    that has other work as well, one thread too many makes it several times slower."""
    return max(1, min(4, (os.cpu_count() or 1) // 2))


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line; ``--port 0`` takes a free one."""
    parser = argparse.ArgumentParser(prog="python -m scheduler.llama", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=port_number, default=9009)
    parser.add_argument("--slots", type=whole_number, default=2, help="requests at once")
    parser.add_argument("--ctx-per-slot", type=whole_number, default=4096, help="tokens of context")
    parser.add_argument("--alias", default="smollm2", help="the model name it answers to")
    parser.add_argument("--slot-dir", type=Path, help="where slots are saved (a temporary folder)")
    parser.add_argument("--threads", type=whole_number, default=default_threads())
    parser.add_argument("--model-file", type=Path, help="another GGUF file than the wheel's")
    parser.add_argument("--verbose", action="store_true", help="show the engine's own log")
    return parser.parse_args(argv)


def build_params(library: Library, args: argparse.Namespace, slot_dir: Path) -> Params:
    """The engine's settings: context split evenly over the slots, slots saved in ``slot_dir``."""
    params = library.new_params()
    params.model.path = str(args.model_file or default_model())
    params.model_alias = {args.alias}
    params.hostnames = [args.host]
    params.port = args.port
    params.n_parallel = args.slots
    params.n_ctx = args.slots * args.ctx_per_slot
    params.n_batch = params.n_ubatch = BATCH_TOKENS
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    params.endpoint_metrics = params.endpoint_slots = params.use_jinja = True
    params.ui = False
    # File names are appended as they are, so the path needs its closing slash.
    params.slot_save_path = f"{slot_dir}/"
    params.cache_ram_mib = PROMPT_CACHE_MIB
    if not args.verbose:
        params.verbosity = ERRORS_ONLY
    return params


def serve(args: argparse.Namespace, slot_dir: Path) -> Server:
    """Listen until SIGTERM or SIGINT; says where on one line once requests can be answered."""
    # Blocked before the engine starts its threads, so that none of them takes the signal.
    stops = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    library = load_library()
    server = library.start_server(build_params(library, args, slot_dir))
    sys.stdout.write(f"llama.cpp serves {args.alias} on {server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait(stops)
    return server


def run(args: argparse.Namespace) -> Server:
    """``serve`` with a folder for the slots, which is removed where none was named."""
    if args.slot_dir is not None:
        args.slot_dir.mkdir(parents=True, exist_ok=True)
        # What was saved belongs to requests that ended with the process before.
        for left in args.slot_dir.glob(SNAPSHOTS):
            left.unlink()
        return serve(args, args.slot_dir)
    with tempfile.TemporaryDirectory(prefix="fairlane-slots-") as folder:
        return serve(args, Path(folder))


def main(argv: list[str] | None = None) -> NoReturn:
    """Exits 0 after a stop, 1 with one line on stderr where it cannot start."""
    args = parse_args(argv)
    try:
        _server = run(args)
    except (LlamaUnavailableError, RuntimeError, OSError) as error:
        sys.stderr.write(f"scheduler.llama: {error}\n")
        sys.exit(1)
    # The engine's own orderly stop waits for open streams to end, however long that takes;
    # so the process ends while the server object still lives.
    os._exit(0)


if __name__ == "__main__":
    main()
