"""Work that a page asks for and doesn't wait for: a process of its own, with low priority.

Its progress and its end stand in Postgres; the process that started it may go.
"""

import os
import subprocess
import sys

from django.conf import settings

NICE = 10
_started: list["subprocess.Popen[bytes]"] = []


def run_command(*words: str) -> None:
    """Start ``manage.py`` with these words."""
    # Collect those that have ended, so that none is left as a zombie.
    _started[:] = [process for process in _started if process.poll() is None]
    _started.append(
        subprocess.Popen(
            [sys.executable, str(settings.BASE_DIR / "manage.py"), *words],
            cwd=settings.BASE_DIR,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # One system call, with no lock that another thread could hold.
            preexec_fn=_yield_to_others,  # noqa: PLW1509
        )
    )


def _environment() -> dict[str, str]:
    """Ours, with the database that is in use now: a test's is another than the variable's."""
    return {**os.environ, "FAIRLANE_DATA_DIR": str(settings.FAIRLANE_DATA_DIR)}


def _yield_to_others() -> None:
    os.nice(NICE)
