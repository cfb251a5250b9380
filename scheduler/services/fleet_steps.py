"""Single steps with the fleet, as an operator takes them: drain, remove, test, warm.

To add or change an entry is to apply a fleet document with that entry (services/fleet.py).
"""

import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.db import transaction

from metering.models import ChangeVersion
from metering.services import audit
from metering.services.changes import announce
from scheduler.addresses import check_url
from scheduler.core.policy import PolicyError, Problem
from scheduler.engines import engine
from scheduler.fleet_file import FleetError
from scheduler.models import Pool, Replica
from scheduler.selectors.policy import pools_in_use
from scheduler.services.policy import lock_policy

TEST_S = 5.0
WARM_S = 120.0
MOST_WORDS = 200


@transaction.atomic
def drain(replica: Replica, *, on: bool, actor: AbstractBaseUser | None) -> None:
    """Give a replica nothing new and let what runs there end (``on``), or take it back."""
    row = Replica.objects.select_for_update().get(pk=replica.pk)
    if row.draining is on:
        return
    row.draining = on
    row.save(update_fields=["draining"])
    action = "replica.drain" if on else "replica.undrain"
    audit.record(action, actor=actor, source="console", target=row.name)
    announce(ChangeVersion.Topic.FLEET)


@transaction.atomic
def remove_replica(replica: Replica, *, actor: AbstractBaseUser | None) -> None:
    """Take a replica out of the fleet; what runs there runs to its end."""
    lock_policy()
    Replica.objects.filter(pk=replica.pk).delete()
    audit.record("replica.remove", actor=actor, source="console", target=replica.name)
    announce(ChangeVersion.Topic.FLEET)


@transaction.atomic
def remove_pool(pool: Pool, *, actor: AbstractBaseUser | None) -> None:
    """Take an empty pool out of the fleet. Raises FleetError for one that has replicas or that
    the active policy names."""
    lock_policy()
    if Replica.objects.filter(pool=pool).exists():
        raise FleetError([Problem("", f"pool {pool.name} has replicas")])
    try:
        named = [each.path for each in pools_in_use() if each.pool == pool.name]
    except PolicyError as error:
        named = [f"an active policy that can't be read ({error.problems[0]})"]
    if named:
        raise FleetError([Problem("", f"pool {pool.name} is named by {', '.join(named)}")])
    pool.delete()
    audit.record("pool.remove", actor=actor, source="console", target=pool.name)
    announce(ChangeVersion.Topic.FLEET)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a replica said: whether it is well, in words, and after how long (ms)."""

    well: bool
    words: str
    ms: float = 0.0


def ask_replica(replica: Replica) -> Answer:
    """Ask a replica whether it is well, as the health checks do. Blocks for seconds at most."""
    adapter = engine(replica.engine)
    return _ask("GET", replica, adapter.health_path, None, TEST_S)


def warm_replica(replica: Replica, *, actor: AbstractBaseUser | None) -> Answer:
    """Let each model of a replica write one token, so that the first caller waits for no
    loading. Blocks for up to two minutes a model."""
    last = Answer(True, "")
    for served in dict.fromkeys(replica.models.values()):
        body = {
            "model": served,
            "messages": [{"role": "user", "content": "."}],
            "max_tokens": 1,
        }
        last = _ask("POST", replica, "/v1/chat/completions", body, WARM_S)
        if not last.well:
            break
    audit.record("replica.warm", actor=actor, source="console", target=replica.name, well=last.well)
    return last


def _ask(
    method: str, replica: Replica, path: str, body: dict[str, object] | None, limit_s: float
) -> Answer:
    began = time.monotonic()
    try:
        # Its address was checked when it was saved; its name may lead elsewhere by now.
        check_url(replica.url, settings.FAIRLANE_REPLICA_CIDRS)
        headers = _headers(replica)
        with httpx.Client(timeout=limit_s, trust_env=False) as client:
            response = client.request(
                method, replica.url.rstrip("/") + path, json=body, headers=headers
            )
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        return Answer(False, (str(error) or type(error).__name__)[:MOST_WORDS])
    ms = (time.monotonic() - began) * 1000
    well = response.status_code < (500 if body is None else 400) and not response.is_redirect
    return Answer(well, f"HTTP {response.status_code}", round(ms, 1))


def _headers(replica: Replica) -> dict[str, str]:
    if not replica.token_file:
        return {}
    return {"authorization": f"Bearer {Path(replica.token_file).read_text().strip()}"}
