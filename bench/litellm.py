"""LiteLLM's proxy as a peer, in a virtual environment of its own below ``build``."""

import os
from pathlib import Path

from .machine import Cores
from .process import Server, free_port
from .upstream import MODEL, Upstream
from .venv import installed

KEY = "sk-bench"
CONFIG = """
model_list:
  - model_name: chat
    litellm_params: {{model: "openai/{model}", api_base: "{url}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
"""


def litellm(folder: Path, upstream: Upstream, cores: Cores) -> tuple[Server, int, str]:
    """Install it on first use and start it with one worker; the server, its port and a key."""
    program = installed("bench-litellm", "litellm", "litellm[proxy]")
    config = folder / "litellm.yaml"
    config.write_text(CONFIG.format(model=MODEL, url=upstream.url, key=KEY), encoding="utf-8")
    port = free_port()
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    server = Server("litellm", command, core=cores.gateway, env=os.environ, folder=folder)
    return server, port, KEY
