"""Which cards it takes to do some work: held against all divisions of it that there are."""

from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.cover import LACK, Demand, Offer, cover

SLOTS = 4.0
MODELS = "abcd"


def offer(name: str, models: str, slots: float = SLOTS) -> Offer:
    return Offer(name, frozenset(models), slots)


def short(slots: dict[str, float], offers: list[Offer]) -> float:
    """The work that is left at least: by the smallest cut, some models want more than all cards
    have that serve any of them."""
    models = list(slots)
    groups = chain.from_iterable(combinations(models, n) for n in range(len(models) + 1))
    return max(
        sum(slots[m] for m in group)
        - sum(each.slots for each in offers if each.models & set(group))
        for group in groups
    )


@pytest.mark.parametrize(
    ("slots", "offers", "expected"),
    [
        ({"a": 3.0}, ["a", "a"], {"0": "a"}),
        ({"a": 5.0}, ["a", "a", "a"], {"0": "a", "1": "a"}),
        # A tenth of a card is not worth one.
        ({"a": 4.3}, ["a", "a"], {"0": "a"}),
        ({"a": 4.0, "b": 4.0}, ["a", "a", "b"], {"0": "a", "2": "b"}),
        ({"b": 4.0}, ["a", "ab"], {"1": "b"}),
        ({}, ["a"], {}),
        ({"z": 9.0}, ["a"], {}),
    ],
)
def test_what_is_needed_is_taken(
    slots: dict[str, float], offers: list[str], expected: dict[str, str]
) -> None:
    named = [offer(str(number), models) for number, models in enumerate(offers)]
    assert cover(Demand.of(slots, {}), (), named)[0] == expected


def test_one_that_serves_either_leaves_to_others_what_they_can_do() -> None:
    """Of a there are plenty; b has but the card that serves both."""
    given = [offer("own", "ab")]
    chosen, left = cover(Demand.of({"a": 3.0, "b": 4.0}, {}), given, [offer("c", "a")])
    assert chosen == {"c": "a"}
    assert left.lacking(SLOTS) == 0


def test_as_many_as_are_wanted_of_a_model_whatever_they_have_to_do() -> None:
    offers = [offer(str(number), "ab" if number % 2 else "b") for number in range(6)]
    chosen, left = cover(Demand.of({}, {"a": 3}), [offer("own", "a")], offers)
    assert chosen == {"1": "a", "3": "a"}
    chosen, left = cover(Demand.of({}, {"a": 9}), [offer("own", "a")], offers)
    assert set(chosen) == {"1", "3", "5"}
    assert left.lacking(SLOTS) == 5


instances = st.tuples(
    st.dictionaries(st.sampled_from(MODELS), st.floats(0.1, 20.0), max_size=4),
    st.lists(st.sets(st.sampled_from(MODELS), min_size=1), max_size=3),
    st.lists(st.sets(st.sampled_from(MODELS), min_size=1), max_size=8),
)


@settings(max_examples=300, deadline=None)
@given(instance=instances)
def test_what_they_cover_is_all_that_can_be(
    instance: tuple[dict[str, float], list[set[str]], list[set[str]]],
) -> None:
    slots, fixed, more = instance
    given_ = [offer(f"f{n}", "".join(models)) for n, models in enumerate(fixed)]
    offers = [offer(f"c{n}", "".join(models)) for n, models in enumerate(more)]
    chosen, left = cover(Demand.of(slots, {}), given_, offers)
    taken = [*given_, *(each for each in offers if each.name in chosen)]
    rest = [each for each in offers if each.name not in chosen]
    assert sum(left.left.values()) == pytest.approx(max(0.0, short(slots, taken)), abs=1e-6)
    assert all(value >= -1e-6 for uses in left.used.values() for value in uses.values())
    # None of those left out would be worth it.
    for each in rest:
        gain = max(0.0, short(slots, taken)) - max(0.0, short(slots, [*taken, each]))
        assert gain <= LACK * SLOTS + 1e-6
    # And who covers more than this needs no other for this.
    less = {model: 0.9 * work for model, work in slots.items()}
    if sum(left.left.values()) < 1e-6:
        assert cover(Demand.of(less, {}), taken, rest)[0] == {}
