"""LiteLLM's proxy as a peer, in a virtual environment of its own below ``build``."""

import os
import subprocess
import sys
from pathlib import Path

from .machine import BenchError, Cores
from .process import ROOT, Server, free_port
from .upstream import MODEL, Upstream

VENV = ROOT / "build" / "bench-litellm"
KEY = "sk-bench"
CONFIG = """
model_list:
  - model_name: chat
    litellm_params: {{model: "openai/{model}", api_base: "{url}/v1", api_key: none}}
general_settings: {{master_key: {key}}}
"""


def litellm(folder: Path, upstream: Upstream, cores: Cores) -> tuple[Server, int, str]:
    """Install it on first use and start it with one worker; the server, its port and a key."""
    program = VENV / "bin" / "litellm"
    if not program.exists():
        sys.stderr.write("bench: installing litellm\n")
        for command in (
            [sys.executable, "-m", "venv", str(VENV)],
            [str(VENV / "bin" / "python"), "-m", "pip", "--quiet", "install", "litellm[proxy]"],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    config = folder / "litellm.yaml"
    config.write_text(CONFIG.format(model=MODEL, url=upstream.url, key=KEY), encoding="utf-8")
    port = free_port()
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]
    server = Server("litellm", command, core=cores.gateway, env=os.environ, folder=folder)
    return server, port, KEY
