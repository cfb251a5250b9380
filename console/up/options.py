"""What the person who starts it may choose."""

import socket
from dataclasses import dataclass
from pathlib import Path

from console.config.env import Env

from .errors import UpError

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Options:
    """``database_url``: empty for the embedded server; ``llama``: run the real engine too."""

    root: Path
    data_dir: Path
    port: int
    demo: bool
    llama: bool
    database_url: str

    @property
    def base_url(self) -> str:
        """Console and gateway share one address."""
        return f"http://{HOST}:{self.port}"

    @property
    def demo_file(self) -> Path:
        """Logins and keys of the demo, for programs."""
        return self.data_dir / "demo.json"


def read_options(env: Env, *, root: Path, data_dir: Path, port: int | None) -> Options:
    """From the environment, where ``port`` from the command line wins over PORT."""
    return Options(
        root=root,
        data_dir=data_dir,
        port=port or env.integer("PORT", 8000, least=1),
        demo=env.flag("DEMO", True),
        llama=env.choice("ENGINE", "", ("", "llama")) == "llama",
        database_url=env.secret("DATABASE_URL"),
    )


def check_port(port: int) -> None:
    """Raise UpError, with what to do, if nothing can listen there."""
    try:
        listen(port).close()
    except OverflowError:
        raise UpError(f"{port} is not a port") from None
    except PermissionError:
        raise UpError(f"port {port} is only for root: choose another with PORT=8000") from None
    except OSError:
        other = port + 1 if port < 65535 else 8000
        raise UpError(
            f"port {port} is taken: stop what listens there, or choose another with PORT={other}"
        ) from None


def listen(port: int) -> socket.socket:
    """A socket bound to ``port`` on loopback; 0 takes a free one."""
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Connections of an earlier run that still fade away are no obstacle.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((HOST, port))
        bound.listen()
    except BaseException:  # whatever it was: the port is not held
        bound.close()
        raise
    return bound


def free_port(preferred: int, taken: set[int]) -> int:
    """``preferred`` if it is free and not in ``taken``, else any free port."""
    for port in (preferred, 0):
        if port in taken:
            continue
        try:
            with listen(port) as bound:
                found = bound.getsockname()[1]
        except OSError:
            continue
        return int(found)
    raise UpError("no free port on 127.0.0.1")
