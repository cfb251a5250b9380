"""nginx before several cards, as people set it up who have nothing else."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .process import Server, free_port

# Bodies stay in memory, events pass at once, connections are kept: nothing that can be tuned for
# it is left out. It never takes a card for dead.
CONFIG = """
worker_processes 1;
daemon off;
{user}
pid {folder}/{name}.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 300s;
    client_max_body_size 64m;
    client_body_buffer_size 1m;
    client_body_temp_path {folder}/{name}-body;
    proxy_temp_path {folder}/{name}-proxy;
    fastcgi_temp_path {folder}/{name}-fastcgi;
    uwsgi_temp_path {folder}/{name}-uwsgi;
    scgi_temp_path {folder}/{name}-scgi;
    upstream cards {{
        {method}
        {cards}
        keepalive 512;
        keepalive_requests 1000000000;
    }}
    server {{
        listen 127.0.0.1:{port};
        location = /health {{ return 200 'ok'; }}
        location / {{
            proxy_pass http://cards;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 900s;
        }}
    }}
}}
"""
METHODS = {"least_conn": "least_conn;", "round robin": ""}


@contextmanager
def balancing(
    method: str, urls: Sequence[str], folder: Path, core: int
) -> Iterator[tuple[Server, int]]:
    """nginx that spreads calls over these URLs by one of ``METHODS``, until the block ends."""
    port = free_port()
    name = f"nginx-{method.replace(' ', '-')}"
    path = folder / f"{name}.conf"
    cards = "\n        ".join(f"server {url.removeprefix('http://')} max_fails=0;" for url in urls)
    # As root its worker would become another user, who may not enter the folder.
    user = "user root;" if os.geteuid() == 0 else ""
    path.write_text(
        CONFIG.format(
            folder=folder, name=name, port=port, user=user, method=METHODS[method], cards=cards
        ),
        encoding="utf-8",
    )
    command = ["nginx", "-p", str(folder), "-c", str(path)]
    server = Server(name, command, core=core, env=os.environ, folder=folder)
    try:
        server.ready(f"http://127.0.0.1:{port}/health")
        yield server, port
    finally:
        server.stop()
