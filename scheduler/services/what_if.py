"""Writes of what-if runs: asked for on a page, carried out in the background."""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from django.contrib.auth.base_user import AbstractBaseUser
from django.utils import timezone

from metering.selectors.access import load_access
from metering.services import audit
from scheduler.core.policy import Policy, Problem, from_stored
from scheduler.models import PolicyVersion, WhatIf
from scheduler.selectors.fleet import load_fleet
from scheduler.selectors.policy import load_policy, load_version
from scheduler.selectors.recording import TooMuchTrafficError, load_recording
from scheduler.simulation.scenario_file import built_in
from scheduler.whatif.compare import Comparison, compare
from scheduler.whatif.made_up import compare_scenario

log = logging.getLogger(__name__)

LONGEST = timedelta(hours=2)
TELL_EVERY_S = 0.5
# A run that has not been heard of for so long has died with its process.
SILENCE = timedelta(seconds=60)
MOST_AT_ONCE = 2


class WhatIfError(ValueError):
    """A run that can't be had; ``problem`` says which field is wrong and why."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


def ask_what_if(
    version: PolicyVersion,
    *,
    actor: AbstractBaseUser | None,
    begin: datetime | None = None,
    end: datetime | None = None,
    scenario: str = "",
) -> WhatIf:
    """Note a run of a window or of a built-in scenario; somebody must then carry it out.

    Raises WhatIfError for a window that is empty, too long or ahead of time, for a scenario
    that is not there, and while enough others run.
    """
    if scenario:
        if scenario not in built_in():
            raise WhatIfError(Problem("scenario", f"there is no scenario {scenario}"))
    elif begin is None or end is None or end <= begin:
        raise WhatIfError(Problem("end", "must be after the beginning"))
    elif end - begin > LONGEST:
        raise WhatIfError(Problem("end", "must be within two hours of the beginning"))
    elif end > timezone.now():
        raise WhatIfError(Problem("end", "must not be in the future"))
    busy = WhatIf.objects.filter(
        state__in=(WhatIf.State.WAITING, WhatIf.State.RUNNING),
        beat_at__gt=timezone.now() - SILENCE,
    )
    if busy.count() >= MOST_AT_ONCE:
        raise WhatIfError(Problem("", "two other runs are under way: wait for them"))
    row = WhatIf.objects.create(
        version=version,
        against=load_policy()[0],
        scenario=scenario,
        begin=None if scenario else begin,
        end=None if scenario else end,
        author_id=None if actor is None else actor.pk,
    )
    audit.record(
        "policy.what_if",
        actor=actor,
        source="console",
        target=f"policy {version.version}",
        traffic=scenario or f"{begin} to {end}",
    )
    return row


def run_what_if(pk: int) -> WhatIf:
    """Carry a run out, here and now. Whatever it meets stands in the row afterwards. A row
    that somebody has begun already is left alone."""
    begun = WhatIf.objects.filter(pk=pk, state=WhatIf.State.WAITING).update(
        state=WhatIf.State.RUNNING, beat_at=timezone.now()
    )
    row = WhatIf.objects.select_related("version").get(pk=pk)
    if not begun:
        return row
    try:
        row.result = dict(_compare(row, _teller(pk)))
    except TooMuchTrafficError as error:
        row.state, row.error = WhatIf.State.FAILED, str(error)
    except Exception as error:
        # The page must say that it failed, whatever it was; the log says where.
        log.exception("what-if %d failed", pk)
        row.state, row.error = WhatIf.State.FAILED, f"{type(error).__name__}: {error}"[:500]
    else:
        row.state, row.progress = WhatIf.State.DONE, 1.0
    row.finished_at = row.beat_at = timezone.now()
    row.save(update_fields=["state", "progress", "error", "result", "finished_at", "beat_at"])
    return row


def _compare(row: WhatIf, watch: Callable[[float], None]) -> Comparison:
    active = load_version(row.against) if row.against else Policy()
    draft = from_stored(row.version.document)
    if row.scenario:
        return compare_scenario(row.scenario, active, draft, watch)
    assert row.begin is not None, "a run has a window or a scenario"
    assert row.end is not None, "a window has an end"
    recording = load_recording(row.begin, row.end)
    fleet = load_fleet()
    # What is being emptied takes no new work, under either policy.
    serving = {name: facts for name, facts in fleet.replicas.items() if not facts.draining}
    return compare(
        recording,
        fleet=replace(fleet, replicas=serving),
        businesses=load_access().businesses,
        active=active,
        draft=draft,
        watch=watch,
    )


def _teller(pk: int) -> Callable[[float], None]:
    """Writes progress down now and then."""
    last = time.monotonic()

    def tell(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= TELL_EVERY_S:
            last = now
            WhatIf.objects.filter(pk=pk).update(progress=share, beat_at=timezone.now())

    return tell
