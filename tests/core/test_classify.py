"""From features to a level: the published table, mapping rows, sources of features."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metering.core.facts import BusinessFacts
from scheduler.core.classify import (
    GRADE,
    REALTIME,
    WEIGHT,
    Features,
    base_level,
    classify,
    features_of,
)
from scheduler.core.fleet import ModelFacts
from scheduler.core.policy import Classification, FeatureDefaults, MappingRow, Policy

ORDERED = (tuple(REALTIME), tuple(WEIGHT), tuple(GRADE))
TABLE = [Features(*row) for row in product(REALTIME, WEIGHT, GRADE, (False, True), (False, True))]


def level(features: Features, *rows: MappingRow) -> int:
    return base_level(features, rows)[0]


def policy(*rows: MappingRow, defaults: FeatureDefaults | None = None) -> Policy:
    section = Classification(mapping=rows, defaults=defaults or FeatureDefaults())
    return replace(Policy(), classification=section)


@pytest.mark.parametrize(
    ("realtime", "weight", "grade", "expected"),
    [
        ("high", "light", "vip", 0),
        ("high", "heavy", "premium", 2),
        ("medium", "medium", "basic", 4),
        ("low", "medium", "basic", 7),
    ],
)
def test_the_published_rows(realtime: str, weight: str, grade: str, expected: int) -> None:
    assert level(Features(realtime, weight, grade, offline=False, billing_sla=False)) == expected


def test_the_table_spans_all_levels_and_stays_within_them() -> None:
    assert {level(row) for row in TABLE} == set(range(10))
    assert level(Features("high", "light", "vip", offline=False, billing_sla=True)) == 0
    assert level(Features("low", "heavy", "basic", offline=True, billing_sla=False)) == 9


@pytest.mark.parametrize("row", TABLE)
def test_no_feature_that_asks_for_less_makes_more_urgent(row: Features) -> None:
    places = [
        values.index(value)
        for values, value in zip(ORDERED, (row.realtime, row.model_weight, row.grade), strict=True)
    ]
    for realtime in ORDERED[0][places[0] :]:
        assert level(replace(row, realtime=realtime)) >= level(row)
    for weight in ORDERED[1][places[1] :]:
        assert level(replace(row, model_weight=weight)) >= level(row)
    for grade in ORDERED[2][places[2] :]:
        assert level(replace(row, grade=grade)) >= level(row)
    assert level(replace(row, offline=True)) >= level(replace(row, offline=False))
    assert level(replace(row, billing_sla=True)) <= level(replace(row, billing_sla=False))


def test_the_first_mapping_row_that_fits_wins() -> None:
    rows = (
        MappingRow(realtime="high", grade="vip", level=3),
        MappingRow(realtime="high", level=5),
        MappingRow(offline=True, level=9),
    )
    high = Features("high", "light", "vip", offline=False, billing_sla=False)
    assert base_level(high, rows) == (3, "mapping row 1")
    assert base_level(replace(high, grade="basic"), rows) == (5, "mapping row 2")
    assert base_level(replace(high, realtime="low", offline=True), rows) == (9, "mapping row 3")
    assert base_level(replace(high, realtime="low"), rows) == (5, "formula")


def test_a_row_without_features_fits_all() -> None:
    assert {level(row, MappingRow(level=6)) for row in TABLE} == {6}


def test_a_row_for_work_that_is_not_offline_leaves_offline_work_alone() -> None:
    row = MappingRow(offline=False, level=1)
    offline = Features("low", "light", "vip", offline=True, billing_sla=False)
    assert level(offline, row) == 6
    assert level(replace(offline, offline=False), row) == 1


@given(st.lists(st.sampled_from(TABLE), min_size=1, max_size=5), st.sampled_from(TABLE))
def test_one_row_per_combination_is_looked_up_exactly(
    found: list[Features], asked: Features
) -> None:
    rows = [
        MappingRow(
            realtime=row.realtime,
            model_weight=row.model_weight,
            grade=row.grade,
            offline=row.offline,
            level=index,
        )
        for index, row in enumerate(found)
    ]
    same = [
        index
        for index, row in enumerate(found)
        if replace(row, billing_sla=asked.billing_sla) == asked
    ]
    expected = same[0] if same else level(asked)
    assert level(asked, *rows) == expected


# Where features come from.

SHOP = BusinessFacts("shop", grade="vip", ceiling=0)
MODEL = ModelFacts("m", weight="light")


def test_the_business_speaks_before_the_model_and_the_model_before_the_defaults() -> None:
    rules = policy(defaults=FeatureDefaults(realtime="low", model_weight="heavy"))
    assert features_of(SHOP, MODEL, rules, None).realtime == "low"
    fast = replace(MODEL, realtime="medium")
    assert features_of(SHOP, fast, rules, None).realtime == "medium"
    assert features_of(replace(SHOP, realtime="high"), fast, rules, None).realtime == "high"
    assert features_of(SHOP, MODEL, rules, None).model_weight == "light"
    assert features_of(SHOP, replace(MODEL, weight=""), rules, None).model_weight == "heavy"


@pytest.mark.parametrize("source", ["business", "model", "defaults"])
def test_offline_work_counts_as_realtime_low(source: str) -> None:
    business = replace(SHOP, offline=source == "business")
    model = replace(MODEL, offline=source == "model", realtime="high")
    rules = policy(defaults=FeatureDefaults(offline=source == "defaults"))
    found = features_of(business, model, rules, None)
    assert (found.realtime, found.offline) == ("low", True)
    assert classify(business, model, rules, ceiling=0).level == 6


def test_unless_its_business_says_otherwise() -> None:
    business = replace(SHOP, offline=True, realtime="high")
    found = features_of(business, MODEL, Policy(), None)
    assert (found.realtime, found.offline) == ("high", True)
    assert classify(business, MODEL, Policy(), ceiling=0).level == 1


def test_a_callers_word_on_realtime_counts_only_downwards() -> None:
    business = replace(SHOP, realtime="medium")
    assert features_of(business, MODEL, Policy(), "high").realtime == "medium"
    assert features_of(business, MODEL, Policy(), "low").realtime == "low"
    assert features_of(business, MODEL, Policy(), "at once").realtime == "medium"


def test_grade_and_billing_sla_are_the_credentials() -> None:
    basic = replace(SHOP, grade="basic", realtime="medium")
    assert classify(basic, MODEL, Policy(), ceiling=0).level == 4
    paid = replace(basic, billing_sla=True)
    assert classify(paid, MODEL, Policy(), ceiling=0).level == 3
