"""Slowing down those who guess passwords.

An attempt is written down before the password is looked at and counted after that, so
attempts made at once cannot all slip through. Names count whether or not they exist.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from console.models import SignInAttempt

WINDOW = timedelta(minutes=15)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Failures allowed within the window: from one address, and from all of them together.

    The second is wide: whoever knows a name could otherwise lock its owner out at will.
    """

    per_address: int = 5
    per_username: int = 100


THROTTLE = Throttle()


def begin_attempt(username: str, address: str, throttle: Throttle = THROTTLE) -> int:
    """Note an attempt; returns 0 if it may go on, else the seconds until one may."""
    now = timezone.now()
    name = _folded(username)
    SignInAttempt.objects.filter(at__lte=now - WINDOW).delete()
    attempt = SignInAttempt.objects.create(username=name, address=address, at=now)
    by_name = SignInAttempt.objects.filter(username=name).order_by("-at", "-pk")
    waits = [
        _wait(list(rows.values_list("at", flat=True)[: limit + 1]), limit, now=now)
        for rows, limit in (
            (by_name.filter(address=address), throttle.per_address),
            (by_name, throttle.per_username),
        )
    ]
    wait = max(waits)
    if wait:
        # One that was refused unseen is no guess, and must not prolong the wait.
        attempt.delete()
    return wait


def attempt_succeeded(username: str, address: str) -> None:
    """Forget the failures of somebody who knew the password after all."""
    SignInAttempt.objects.filter(username=_folded(username), address=address).delete()


def _wait(times: list[datetime], limit: int, *, now: datetime) -> int:
    """Seconds until fewer than ``limit`` of these attempts, newest first, are in the window."""
    if len(times) <= limit:
        return 0
    return max(1, -((now - WINDOW - times[limit]) // timedelta(seconds=1)))


def _folded(username: str) -> str:
    return username.strip().casefold()[:150]
