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

django.setup()

from django.core.management import call_command  # noqa: E402
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
        times = []
        for _ in range(rounds + 1):
            began = time.perf_counter()
            response = browsers[role].get(path)
            # A streamed answer is made while it is read.
            assert response.status_code == 200, (path, response.status_code)
            times.append((time.perf_counter() - began) * 1_000)
        # The first one compiles templates and opens the connection.
        found[f"{role} {path}"] = {"median_ms": median(times[1:]), "most_ms": max(times[1:])}
    sys.stdout.write(json.dumps(found))


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
