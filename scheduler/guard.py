"""Calls out of the scheduler: whoever is called may break, and nobody else pays for it."""

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

log = logging.getLogger(__name__)
P = ParamSpec("P")
T = TypeVar("T")


def shielded(cost: str, tell: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call; returns None where that raises, and logs what it ``cost`` with its cause."""
    try:
        return tell(*args, **kwargs)
    except Exception:  # whatever it was is a fault of the called alone
        log.exception("%s", cost)
        return None
