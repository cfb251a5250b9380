"""``python -m bench.page_times SIZE``: times every page on a database that is filled for it.

Run by the section ``pages`` with a database of its own; prints JSON.
"""

import json
import os
import sys
import time
from statistics import median

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.config.settings")

import django
import psutil

django.setup()

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from console.models import User  # noqa: E402
from metering.models import Business, Membership  # noqa: E402

from .page_data import Size, fill  # noqa: E402
from .page_list import PAGES  # noqa: E402


def main(businesses: int, keys: int, usage: int, rounds: int) -> None:
    """Fill, sign in once a role, and ask for each page so many times."""
    call_command("migrate", verbosity=0)
    fill(Size(businesses, keys, usage))
    setup_test_environment()
    browsers = {role: _browser(role) for role in User.Role.values}
    found = {}
    for role, path in PAGES:
        # The first one compiles templates and opens the connection.
        assert browsers[role].get(path).status_code == 200, path
        times, before = [], _cpu_s()
        for _ in range(rounds):
            began = time.perf_counter()
            assert browsers[role].get(path).status_code == 200, path
            times.append((time.perf_counter() - began) * 1_000)
        found[f"{role} {path}"] = {
            "cpu_ms": _since(before) * 1_000 / rounds,
            "median_ms": median(times),
        }
    sys.stdout.write(json.dumps(found))


def _since(before: dict[int, float]) -> float:
    """CPU seconds since then. A connection may have been replaced by a new one meanwhile."""
    return sum(spent - before.get(pid, 0.0) for pid, spent in _cpu_s().items())


def _cpu_s() -> dict[int, float]:
    """CPU seconds so far of this process and of those of the database that serve it, by process:
    what a page costs whatever else the machine does."""
    own = time.process_time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        pids = [pid for (pid,) in cursor.fetchall()]
    held = {pid: psutil.Process(pid).cpu_times() for pid in pids}
    return {0: own, **{pid: times.user + times.system for pid, times in held.items()}}


def _browser(role: str) -> Client:
    user = User(username=role, role=role)
    user.is_staff = user.is_superuser = role == User.Role.ADMIN
    user.save()
    if role == User.Role.OWNER:
        large = Business.objects.get(name="business-1")
        Membership.objects.create(user=user, business=large, role=Membership.Role.OWNER)
    client = Client()
    client.force_login(user)
    return client


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:5]))
