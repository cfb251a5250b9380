"""What happened, once more: the replay under the active policy agrees with the record."""

import os
from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from metering.models import AuditEntry
from scheduler.core.policy import MappingRow, Policy
from scheduler.models import WhatIf
from scheduler.selectors.recording import TooMuchTrafficError, load_recording
from scheduler.services.policy import import_policy, save_version
from scheduler.services.what_if import WhatIfError, ask_what_if, run_what_if
from scheduler.simulation.scenario_file import built_in, load
from scheduler.whatif import made_up
from scheduler.whatif.made_up import shortened

from .recorded import made, scenario

# Ten minutes and 50,000 requests, or a tenth of it on a machine that has other things to do.
LONG = os.environ.get("FAIRLANE_LONG_TESTS") == "1"
SECONDS = 600 if LONG else 60
pytestmark = [pytest.mark.django_db, pytest.mark.timeout(1800 if LONG else 300)]


def last_mapping(level: int) -> Policy:
    """Whatever is of a premium business gets this level."""
    row = MappingRow(grade="premium", level=level)
    classification = replace(Policy().classification, mapping=(row,))
    return replace(Policy(), classification=classification)


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "plain"])
def test_the_active_side_agrees_with_what_happened(*, streamed: bool) -> None:
    """P95 wait by lane within 15 % or 20 ms, and the figures of both say so."""
    window = scenario(cards=5, per_s=83.5, seconds=SECONDS, output=38)
    lived = made(window, streamed=streamed)
    import_policy(Policy(), active=True, author=None, reason="first")
    draft = save_version(last_mapping(8), author=None, reason="premium is low now")
    row = ask_what_if(draft, actor=None, begin=lived.begin, end=lived.end)
    assert (row.state, row.against) == (WhatIf.State.WAITING, 1)
    done = run_what_if(row.pk)
    assert done.state == WhatIf.State.DONE, done.error
    found = done.result
    assert found is not None
    assert found["requests"] == lived.requests
    for lane, agreement in found["agreement"].items():
        assert agreement["agrees"], (lane, agreement)
        assert agreement["recorded_ms"] is not None
    waits = {lane: each["p95_ms"] for lane, each in found["recorded"]["lanes"].items()}
    assert waits["P2"] > 100, "a recording in which nobody waits says nothing"
    # Two of the five businesses moved from P1 to P2 under the draft.
    active, moved = found["active"]["lanes"], found["draft"]["lanes"]
    assert moved["P2"]["requests"] > 2 * active["P2"]["requests"]
    assert sum(lane["requests"] for lane in moved.values()) == lived.requests
    assert found["verdict"]["P1"]["word"] in {"better", "same"}
    assert len(found["active"]["series"]["P0"]) == 60


def test_a_run_is_carried_out_once() -> None:
    import_policy(Policy(), active=True, author=None, reason="first")
    draft = save_version(Policy(), author=None, reason="")
    now = timezone.now()
    row = ask_what_if(draft, actor=None, begin=now - timedelta(minutes=5), end=now)
    assert AuditEntry.objects.filter(action="policy.what_if").count() == 1
    first = run_what_if(row.pk)
    assert first.state == WhatIf.State.DONE
    assert first.result is not None
    assert first.result["requests"] == 0
    assert first.result["verdict"]["P0"]["word"] == "none"
    again = run_what_if(row.pk)
    assert again.finished_at == first.finished_at


def test_an_active_policy_that_can_not_be_read_fails_the_run_with_a_word() -> None:
    first = import_policy(Policy(), active=True, author=None, reason="first")
    draft = save_version(Policy(), author=None, reason="")
    row = ask_what_if(draft, actor=None, scenario="replica-loss")
    first.document = {"scheduler": {"mode": "odd"}}
    first.save()
    done = run_what_if(row.pk)
    assert done.state == WhatIf.State.FAILED
    assert "mode" in done.error


@pytest.mark.parametrize(
    ("begin", "end", "scenario_name", "field"),
    [(10, 20, "", "end"), (300, 1, "", "end"), (10, -10, "", "end"), (0, 0, "no-such", "scenario")],
)
def test_a_window_that_makes_no_sense(begin: int, end: int, scenario_name: str, field: str) -> None:
    draft = save_version(Policy(), author=None, reason="")
    now = timezone.now()
    with pytest.raises(WhatIfError) as refused:
        ask_what_if(
            draft,
            actor=None,
            begin=now - timedelta(minutes=begin),
            end=now - timedelta(minutes=end),
            scenario=scenario_name,
        )
    assert refused.value.problem.path == field
    assert not WhatIf.objects.exists()


def test_two_at_once_are_enough() -> None:
    draft = save_version(Policy(), author=None, reason="")
    for _ in range(2):
        ask_what_if(draft, actor=None, scenario="replica-loss")
    with pytest.raises(WhatIfError):
        ask_what_if(draft, actor=None, scenario="replica-loss")
    # Those that have died with their process are in nobody's way.
    WhatIf.objects.update(beat_at=timezone.now() - timedelta(minutes=2))
    ask_what_if(draft, actor=None, scenario="replica-loss")


def test_a_scenario_under_two_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_up, "MOST_REQUESTS", 3_000)
    import_policy(Policy(), active=True, author=None, reason="first")
    draft = save_version(replace(Policy(), mode="fifo"), author=None, reason="by arrival")
    row = ask_what_if(draft, actor=None, scenario="incident-eval-fills-cards")
    done = run_what_if(row.pk)
    assert done.state == WhatIf.State.DONE, done.error
    assert done.result is not None
    assert done.result["agreement"] is None
    assert done.result["verdict"]["P0"]["word"] == "worse"


@pytest.mark.parametrize("name", built_in())
def test_a_scenario_is_cut_to_what_a_page_can_wait_for(name: str) -> None:
    whole = load(name)
    cut = shortened(whole, 20_000)
    assert 1 <= cut.duration_s <= whole.duration_s


def test_more_than_a_run_may_have_is_refused() -> None:
    lived = made(scenario(cards=1, per_s=5, seconds=10, output=5))
    with pytest.raises(TooMuchTrafficError):
        load_recording(lived.begin, lived.end, most=3)
