"""What callers say of their own urgency: always heard downwards, never above the ceiling."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.core.facts import P0, P1, P2, BusinessFacts
from scheduler.core.classify import Claim, Classification, classify, parse_claim, tier_claim
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Classification as Rules
from scheduler.core.policy import Lanes, MappingRow, Policy

MODEL = ModelFacts("m")
SHOP = BusinessFacts("shop", ceiling=0)
CLAIMS = st.sampled_from(["", "P0", "P1", "P2", *"0123456789"])


def computed(level: int, policy: Policy | None = None) -> Policy:
    """A policy by which every request is computed to have this level."""
    return replace(policy or Policy(), classification=Rules(mapping=(MappingRow(level=level),)))


def ask(claim: str, *, base: int = 4, ceiling: int = P0) -> Classification:
    return classify(SHOP, MODEL, computed(base), ceiling=ceiling, claim=parse_claim(claim))


@pytest.mark.parametrize("claim", ["P0", "p0", " P0 "])
def test_p0_claims_the_top(claim: str) -> None:
    assert ask(claim, base=8).level == 0


@pytest.mark.parametrize(("base", "expected"), [(0, 3), (3, 3), (5, 5), (8, 8)])
def test_p1_claims_three_at_most(base: int, expected: int) -> None:
    assert ask("P1", base=base).level == expected


@pytest.mark.parametrize(("base", "expected"), [(0, 7), (4, 7), (7, 7), (9, 9)])
def test_p2_claims_seven_at_most(base: int, expected: int) -> None:
    assert ask("P2", base=base).level == expected


@pytest.mark.parametrize("digit", range(10))
def test_a_digit_claims_itself(digit: int) -> None:
    found = ask(str(digit))
    assert (found.level, found.base_level) == (digit, 4)
    assert found.reason == f"claim {digit}"


@pytest.mark.parametrize(
    ("tier", "expected"),
    [("priority", 0), ("flex", 7), ("auto", 4), ("default", 4), ("", 4), ("scale", 4)],
)
def test_service_tiers(tier: str, expected: int) -> None:
    found = classify(SHOP, MODEL, computed(4), ceiling=P0, claim=tier_claim(tier))
    assert found.level == expected
    assert not found.escalation


@pytest.mark.parametrize(
    "text",
    ["", "u=3, i", "u=0", "i", "P3", "P", "10", "-1", "high", "P00", "0.5", "\u0663", "\u00b2"],
)
def test_anything_else_claims_nothing(text: str) -> None:
    assert parse_claim(text) == Claim()
    assert ask(text, base=5).level == 5


def test_a_claim_above_the_ceiling_is_an_escalation_and_held() -> None:
    found = ask("P0", base=8, ceiling=P1)
    assert found.escalation
    assert (found.level, found.lane) == (3, P1)
    assert found.reason == "claim P0, held at P1"


def test_a_computed_level_above_the_ceiling_is_held_in_silence() -> None:
    found = ask("", base=0, ceiling=P2)
    assert not found.escalation
    assert (found.base_level, found.level, found.lane) == (0, 7, P2)
    assert found.reason == "mapping row 1, held at P2"


def test_zero_is_a_claim_and_not_the_lack_of_one() -> None:
    assert ask("0", base=5).level == 0
    assert ask("0", base=5, ceiling=P2).escalation
    assert not ask("", base=0, ceiling=P2).escalation


@given(claim=CLAIMS, base=st.integers(0, 9), ceiling=st.sampled_from([P0, P1, P2]))
def test_nobody_gets_above_the_ceiling(claim: str, base: int, ceiling: int) -> None:
    found = ask(claim, base=base, ceiling=ceiling)
    free = ask(claim, base=base, ceiling=P0)
    assert found.lane >= ceiling
    assert found.lane == Policy().lane_of(found.level)
    # Held only where it is above; and an escalation only where the caller has said so.
    assert found.level == max(free.level, (0, 3, 7)[ceiling])
    assert found.escalation == (bool(claim) and free.level < (0, 3, 7)[ceiling])


@given(claim=CLAIMS, base=st.integers(0, 9), ceiling=st.sampled_from([P0, P1, P2]))
def test_claims_downwards_are_never_escalations(claim: str, base: int, ceiling: int) -> None:
    held = ask("", base=base, ceiling=ceiling).level
    found = ask(claim, base=base, ceiling=ceiling)
    if ask(claim, base=base).level >= held:
        assert not found.escalation


def test_lanes_with_other_bounds_move_claims_and_ceilings() -> None:
    policy = replace(computed(0), lanes=Lanes(P0=(0, 0), P1=(1, 7), P2=(8, 9)))

    def level(claim: Claim, ceiling: int) -> tuple[int, int]:
        found = classify(SHOP, MODEL, policy, ceiling=ceiling, claim=claim)
        return found.level, found.lane

    assert level(parse_claim("P1"), P0) == (1, P1)
    assert level(tier_claim("flex"), P0) == (8, P2)
    assert level(parse_claim("2"), P2) == (8, P2)
