"""Programs of other projects, each in a virtual environment of its own below ``build``."""

import subprocess
import sys
from pathlib import Path

from .machine import BenchError
from .process import ROOT


def installed(folder: str, name: str, *requirement: str) -> Path:
    """The program ``name``, installed on first use by what ``pip install`` is told as its
    ``requirement``. Raises BenchError."""
    place = ROOT / "build" / folder
    ready, program = place / ".ready", place / "bin" / name
    if ready.exists():
        return program
    sys.stderr.write(f"bench: installing {name}\n")
    pip = [str(place / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [*pip, "install", *requirement],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    ready.touch()
    return program
