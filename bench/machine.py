"""What the machine must offer: two cores if it can, nginx and wrk."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

# Program and the Debian package that brings it.
PROGRAMS = {"nginx": "nginx-light", "wrk": "wrk", "taskset": "util-linux"}


class BenchError(Exception):
    """Ends the run with one line for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Cores:
    """The core of the process under test, and that of everything around it."""

    gateway: int
    load: int

    @property
    def shared(self) -> bool:
        """Whether there is but one core, so that load and gateway take it from each other."""
        return self.gateway == self.load


def cores() -> Cores:
    """The first core for what is measured, the last for the rest."""
    allowed = sorted(os.sched_getaffinity(0))
    return Cores(allowed[0], allowed[-1])


def pinned(command: list[str], *cores: int) -> list[str]:
    """The command, held to these cores with all its threads and children."""
    return ["taskset", "--cpu-list", ",".join(map(str, cores)), *command]


def require_programs() -> None:
    """Install what is missing where apt and root allow it. Raises BenchError elsewhere."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not missing:
        return
    packages = [PROGRAMS[name] for name in missing]
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise BenchError(
            f"the benchmark needs {', '.join(missing)};"
            f" on Debian: sudo apt-get install {' '.join(packages)}"
        )
    sys.stderr.write(f"bench: installing {' '.join(packages)}\n")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-qq", "install", "--yes", "--no-install-recommends", *packages]
    for command in (["apt-get", "-qq", "update"], install):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
