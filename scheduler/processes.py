"""Child processes that do not outlive the process that started them."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(death_signal: signal.Signals) -> Callable[[], None]:
    """What a child calls just before it becomes its program, after any change of user.

    The kernel then sends it ``death_signal`` when the *thread* that started it ends, so
    children belong to the main thread. Only Linux has this; elsewhere it does nothing and
    owners look for leftovers at their next start.
    """
    parent = os.getpid()

    def arrange() -> None:
        if _LIBC is None:
            return
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            # The parent went before the arrangement stood: nobody would ever tell us.
            os._exit(1)

    return arrange
