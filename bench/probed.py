"""Many replicas that are well and get no request: one nginx at a thousand addresses."""

import os
from pathlib import Path

from .machine import Cores
from .process import Server, free_port
from .upstream import ANSWER

PORTS = 4
HISTOGRAMS, BUCKETS, COUNTERS = 16, 24, 40
CONFIG = """
worker_processes 1;
daemon off;
{user}
pid {folder}/probed.pid;
error_log stderr crit;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    server {{
{listen}
        location = /health {{ return 200 'ok'; }}
        location = /metrics {{ root {folder}; default_type text/plain; }}
        location / {{ default_type application/json; return 200 '{answer}'; }}
    }}
}}
"""


def page() -> str:
    """A page of metrics as long as vLLM's."""
    labels = 'engine="0",model_name="org/Model-7B"'
    lines = [
        f"vllm:num_requests_running{{{labels}}} 0.0",
        f"vllm:num_requests_waiting{{{labels}}} 0.0",
        f"vllm:kv_cache_usage_perc{{{labels}}} 0.0",
    ]
    for number in range(HISTOGRAMS):
        name = f"vllm:time_{number}_seconds"
        lines += [f"# HELP {name} Histogram of seconds.", f"# TYPE {name} histogram"]
        lines += [
            f'{name}_bucket{{{labels},le="{bucket / 8}"}} {7000.0 + bucket}'
            for bucket in range(BUCKETS)
        ]
        lines += [f"{name}_sum{{{labels}}} 812.5", f"{name}_count{{{labels}}} 7024.0"]
    lines += [f"vllm:number_{number}_total{{{labels}}} 93.0" for number in range(COUNTERS)]
    return "\n".join(lines) + "\n"


class Probed:
    """The replicas, on the load's core. Each has an address of the loopback network."""

    def __init__(self, folder: Path, cores: Cores, count: int) -> None:
        ports = [free_port() for _ in range(PORTS)]
        self._first = f"http://127.0.0.1:{ports[0]}"
        self.urls = [
            f"http://127.0.{1 + number // 250}.{1 + number % 250}:{ports[number % PORTS]}"
            for number in range(count)
        ]
        (folder / "metrics").write_text(page(), encoding="utf-8")
        path = folder / "probed.conf"
        listen = "\n".join(f"        listen {port};" for port in ports)
        # As root its worker would become another user, who may not enter the folder.
        user = "user root;" if os.geteuid() == 0 else ""
        path.write_text(
            CONFIG.format(folder=folder, listen=listen, answer=ANSWER, user=user), encoding="utf-8"
        )
        command = ["nginx", "-p", str(folder), "-c", str(path)]
        self._server = Server("probed", command, core=cores.load, env=os.environ, folder=folder)

    def ready(self) -> None:
        """Wait for them."""
        self._server.ready(f"{self._first}/health")

    def stop(self) -> None:
        """End them."""
        self._server.stop()
