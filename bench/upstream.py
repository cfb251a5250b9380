"""The model server that all peers stand before: nginx, answering from memory.

Plain calls get one fixed answer. Streams come event by event from a small server behind
it (``bench.events``). nginx also plays a peer: a proxy that does nothing else.
"""

import os
import sys
from pathlib import Path

from .machine import Cores
from .process import Server, free_port

MODEL = "org/Model-7B"
ANSWER = (
    '{"id":"chatcmpl-5d2f8a3c91e64b07","object":"chat.completion","created":1760000000,'
    f'"model":"{MODEL}","choices":[{{"index":0,"message":{{"role":"assistant","content":'
    '"The quarterly report shows no sign of it; three accounts want a second look."},'
    '"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":21,'
    '"completion_tokens":17,"total_tokens":38,"prompt_tokens_details":null}}'
)
COMMON = """
worker_processes 1;
daemon off;
{user}
pid {folder}/{name}.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_body_temp_path {folder}/{name}-body;
    proxy_temp_path {folder}/{name}-proxy;
    fastcgi_temp_path {folder}/{name}-fastcgi;
    uwsgi_temp_path {folder}/{name}-uwsgi;
    scgi_temp_path {folder}/{name}-scgi;
    upstream behind {{
        server 127.0.0.1:{behind};
        keepalive 256;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
{locations}
    }}
}}
"""
PASS = """
        location {path} {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
        }}
"""
FIXED = """
        location = /health {{ return 200 'ok'; }}
        location = /v1/chat/completions {{
            default_type application/json;
            return 200 '{answer}';
        }}
"""


def nginx(name: str, folder: Path, *, core: int, behind: int, locations: str) -> tuple[Server, int]:
    """An nginx with these locations; returns it and its port."""
    port = free_port()
    path = folder / f"{name}.conf"
    # As root its worker would become another user, who may not enter the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    path.write_text(
        COMMON.format(
            folder=folder, name=name, behind=behind, port=port, locations=locations, user=user
        ),
        encoding="utf-8",
    )
    command = ["nginx", "-p", str(folder), "-c", str(path)]
    return Server(name, command, core=core, env=os.environ, folder=folder), port


def proxy(folder: Path, cores: Cores, behind: int) -> tuple[Server, int]:
    """nginx as a peer."""
    return nginx(
        "nginx", folder, core=cores.gateway, behind=behind, locations=PASS.format(path="/")
    )


class Upstream:
    """Both servers, on the load's core."""

    def __init__(self, folder: Path, cores: Cores) -> None:
        events_port = free_port()
        self._events = Server(
            "events",
            [sys.executable, "-m", "bench.events", "--port", str(events_port)],
            core=cores.load,
            env=os.environ,
            folder=folder,
        )
        locations = FIXED.format(answer=ANSWER) + PASS.format(path="= /v1/completions")
        self._nginx, self.port = nginx(
            "upstream", folder, core=cores.load, behind=events_port, locations=locations
        )
        self.url = f"http://127.0.0.1:{self.port}"

    def ready(self) -> None:
        """Wait for it."""
        self._nginx.ready(f"{self.url}/health")

    def stop(self) -> None:
        """End both."""
        self._nginx.stop()
        self._events.stop()
