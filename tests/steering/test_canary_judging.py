"""When a canary is worse than it may be: counts in, a judgement out."""

import json

import pytest

from metering.core.usage import UsageRow
from scheduler.canary import Group, Limits, Meter, Tally, Trial, judge
from scheduler.core.policy import Policy
from scheduler.gateway.ruling import Rules

MS = 1_000_000
SECOND = 1000 * MS


def row(
    status: str = "ok",
    *,
    waited: int | None = 0,
    first: int | None = 10,
    ended: int = 20,
    reason: str = "",
) -> UsageRow:
    """A request that arrived at one second; times in ms after that, None where it never came."""
    return UsageRow(
        id="r",
        business="b",
        key_prefix="",
        operation="chat",
        received=SECOND,
        status=status,
        reason=reason,
        dispatched=0 if waited is None else SECOND + waited * MS,
        first_byte=0 if first is None else SECOND + first * MS,
        finished=SECOND + ended * MS,
    )


def measured(*groups: tuple[bool, int, UsageRow, int]) -> Tally:
    meter = Meter()
    for canary, lane, each, times in groups:
        for _ in range(times):
            meter.note(each, canary=canary, lane=lane, budget_ms=(100, 100, None)[lane])
    return meter.take()


GOOD, LATE = row(), row(first=300, ended=400)
TIMED_OUT = row("queue_timeout", waited=None, first=None, ended=40, reason="queue_timeout")
FULL = row("refused", waited=None, first=None, ended=1, reason="queue_full")


def test_nothing_is_judged_below_200_samples() -> None:
    assert judge(measured((True, 1, FULL, 199)), Limits()).broken == ""
    assert judge(measured((True, 2, FULL, 200)), Limits()).broken == "refusals"


def test_requests_late_are_held_against_the_control_group() -> None:
    tally = measured((True, 1, GOOD, 180), (True, 1, LATE, 20), (False, 1, GOOD, 400))
    found = judge(tally, Limits())
    assert (found.broken, found.canary, found.control) == ("sla", 0.1, 0.0)
    both = measured(
        (True, 1, GOOD, 180), (True, 1, LATE, 20), (False, 1, GOOD, 92), (False, 1, LATE, 8)
    )
    assert judge(both, Limits()).broken == ""


def test_waits_are_held_against_those_of_the_lane_it_would_have_had() -> None:
    slow = row(waited=90, first=95)
    tally = measured((True, 1, slow, 200), (False, 1, GOOD, 200), (False, 0, slow, 200))
    found = judge(tally, Limits(p95_slack_ms=10))
    assert (found.broken, found.lane, found.control) == ("p95", "P1", 0.0)
    assert found.canary == pytest.approx(90, rel=0.1)
    assert judge(measured((True, 0, slow, 200), (False, 0, slow, 200)), Limits()).broken == ""


def test_a_lane_that_the_control_group_hardly_uses_judges_nobody() -> None:
    slow = row(waited=90, first=95)
    tally = measured((True, 2, slow, 400), (False, 2, GOOD, 5), (False, 1, GOOD, 300))
    assert judge(tally, Limits(p95_slack_ms=1)).broken == ""


@pytest.mark.parametrize(
    "other",
    [
        row("refused", waited=None, first=None, reason="rate_limit_requests"),
        row("client_disconnect", waited=None, first=None, ended=20),
        row("client_error", waited=None, first=None, reason="model_not_found"),
    ],
)
def test_what_no_policy_decides_is_no_sample(other: UsageRow) -> None:
    assert measured((True, 1, other, 3)).empty


def test_who_left_after_its_budget_was_kept_waiting_too_long() -> None:
    gone = row("client_disconnect", waited=None, first=None, ended=150)
    group = measured((True, 1, gone, 3)).canary[1]
    assert (group.samples, group.due, group.missed) == (3, 3, 3)


def test_a_refusal_is_late_too_where_an_answer_was_due() -> None:
    group = measured((True, 1, TIMED_OUT, 2)).canary[1]
    assert (group.samples, group.refused, group.missed) == (2, 2, 2)
    assert group.p95_ms() == pytest.approx(40, rel=0.1)


def test_a_request_that_waits_past_its_budget_is_late_before_it_ends() -> None:
    """And is counted once: a draft that starves its requests is found out all the same."""
    rules = Rules()
    policy = Policy()
    rules.follow(1, policy, Trial(7, 2, policy, frozenset({"tried"})))
    waiting = row(waited=None, first=None, ended=0)
    for business, canary in (("tried", True), ("other", False)):
        ruling = rules.of(business)
        ruling.lane = 1
        rules.waits(ruling, waiting, SECOND + 59 * SECOND)
        rules.waits(ruling, waiting, SECOND + 61 * SECOND)
        rules.waits(ruling, waiting, SECOND + 62 * SECOND)
        rules.ended(ruling, LATE)
        tally = rules.meter.take()
        group = (tally.canary if canary else tally.control)[1]
        assert (group.samples, group.due, group.missed) == (1, 1, 1), business
        assert group.p95_ms() == pytest.approx(61_000, rel=0.1)


def test_tallies_add_up_and_read_back() -> None:
    one, two = measured((True, 1, GOOD, 5)), measured((True, 1, LATE, 3), (False, 0, FULL, 2))
    one.add(Tally.from_dict(json.loads(json.dumps(two.as_dict()))))
    assert one == measured((True, 1, GOOD, 5), (True, 1, LATE, 3), (False, 0, FULL, 2))
    assert Tally.from_dict({}) == Tally()


def test_percentiles_are_within_a_tenth_and_memory_is_bounded() -> None:
    group = Group()
    meter = Meter()
    for wait in range(1, 20_001):
        meter.note(row(waited=wait, first=wait), canary=True, lane=0, budget_ms=None)
    group = meter.take().canary[0]
    assert group.p95_ms() == pytest.approx(19_000, rel=0.1)
    assert len(group.waits) < 177
