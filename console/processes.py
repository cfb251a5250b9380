"""Child processes that do not outlive the process that started them."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scheduler.processes import die_with_parent


@dataclass(frozen=True, slots=True)
class Account:
    """A system user to run a child as; ``home`` is of no use to it and so left out."""

    name: str
    uid: int
    gid: int


def spawn(
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    cwd: Path,
    output: IO[bytes] | int | None = None,
    death_signal: signal.Signals = signal.SIGTERM,
    account: Account | None = None,
) -> subprocess.Popen[bytes]:
    """Start ``command`` in a session of its own, with nothing on standard input.

    A session of its own keeps a terminal's Ctrl-C away from it: whoever started it decides
    in which order things stop. ``output`` takes both its streams (None: as the parent's).
    """
    return subprocess.Popen(
        [str(part) for part in command],
        env=dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        # One system call and one comparison, with no lock that another thread could hold.
        preexec_fn=die_with_parent(death_signal),  # noqa: PLW1509
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )


def stop(process: subprocess.Popen[bytes], first: signal.Signals, *, grace_s: float) -> bool:
    """End a child: ``first``, and after ``grace_s`` seconds SIGKILL to its whole session.

    True if it went by itself. Safe to call on one that has ended.
    """
    if process.poll() is not None:
        return True
    process.send_signal(first)
    try:
        process.wait(grace_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True
