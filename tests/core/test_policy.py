"""The policy tree, and reading and writing it as a file."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import pytest
import yaml

from scheduler.core.policy import (
    Kind,
    Lanes,
    MappingRow,
    NamedPool,
    Policy,
    Section,
    differences,
    from_document,
    leaves,
    named_pools,
    problems,
    specs,
    to_document,
)
from scheduler.policy_file import dump, parse

DATA = Path(__file__).parents[1] / "data"
DEFAULTS = (DATA / "policy-defaults.yaml").read_text(encoding="utf-8")
FRAGMENT = (DATA / "policy-fragment.yaml").read_text(encoding="utf-8")


def test_every_default_is_the_published_one() -> None:
    # Read by the plain library, so that a fault of our own reader can't hide here.
    assert to_document(Policy()) == yaml.safe_load(DEFAULTS)
    assert parse(DEFAULTS) == Policy()


def test_the_defaults_keep_every_rule() -> None:
    assert problems(Policy()) == []


def test_the_published_fragment_reads_as_it_stands() -> None:
    policy = parse(FRAGMENT)
    assert policy.queues.P0.dedicated_pool == "gpu-p0"
    assert policy.queue(1).pool == policy.queue(2).pool == "gpu-elastic"
    assert policy.queues.P0.min_bandwidth == 0.4
    assert policy.queues.P2.max_occupy == 0.3
    assert policy.queues.P2.max_wait_ms == 90_000
    assert policy.backpressure.action == ("throttle_P2", "scale_gpu")
    assert policy.backpressure.scale.headroom == 0.2
    changed = {difference.path for difference in differences(Policy(), policy)}
    assert changed == {
        "scheduler.queues.P0.dedicated_pool",
        "scheduler.queues.P1.shared_pool",
        "scheduler.queues.P2.shared_pool",
    }


def test_an_empty_section_is_all_defaults() -> None:
    assert parse("scheduler: {}") == parse("{}") == from_document({}) == Policy()


@pytest.mark.parametrize("word", ["refuse", "reject"])
def test_both_spellings_of_refusing_an_escalation(word: str) -> None:
    policy = parse(f"scheduler: {{classification: {{on_escalation: {word}}}}}")
    assert policy.classification.on_escalation == "refuse"


def test_lanes_and_queues_by_level_and_index() -> None:
    policy = Policy()
    assert policy.lanes.P0 == (0, 2)
    assert [policy.lane_of(level) for level in range(10)] == [0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert policy.queue(0) is policy.queues.P0
    assert policy.queue(2) is policy.queues.P2
    moved = Policy(lanes=Lanes(P0=(0, 0), P1=(1, 8), P2=(9, 9)))
    assert [moved.lane_of(level) for level in (0, 1, 8, 9)] == [0, 1, 1, 2]
    assert replace(Policy(), lanes=moved.lanes).lane_of(1) == 1


def test_every_lane_answers_the_same_questions() -> None:
    policy = Policy()
    assert [policy.queue(lane).min_share for lane in range(3)] == [0.4, 0.1, 0.05]
    assert [policy.queue(lane).preempt for lane in range(3)] == [True, False, False]
    assert {policy.queue(lane).budget_on for lane in range(3)} == {"first_token"}
    assert {policy.queue(lane).pool for lane in range(3)} == {None}


def test_a_policy_is_a_value() -> None:
    policy = parse(FRAGMENT)
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert copy.deepcopy(policy) == policy
    assert hash(policy) == hash(parse(FRAGMENT))
    with pytest.raises(FrozenInstanceError):
        policy.mode = "fifo"  # type: ignore[misc]


def test_every_field_says_what_it_is_for_and_what_is_allowed() -> None:
    for path, spec, _ in leaves(Policy(classification=with_rows().classification)):
        assert spec.help.endswith("."), path
        assert spec.allowed(), path
        unit = {"_ms": "ms", "_s": "s"}.get("_" + path.rpartition("_")[2])
        if unit and "requests_per_s" not in path:
            assert spec.unit == unit, path


def test_no_field_is_outside_the_schema() -> None:
    def walk(section: type[Section] | Section) -> None:
        known = dict(specs(section))
        assert {item.name for item in fields(section) if item.init} == set(known)
        for spec in known.values():
            if spec.kind in {Kind.SECTION, Kind.ROWS}:
                assert spec.section is not None
                walk(spec.section)

    walk(Policy)


def with_rows() -> Policy:
    return from_document(
        {
            "scheduler": {
                "classification": {
                    "mapping": [
                        {"realtime": "high", "model_weight": "light", "grade": "vip", "level": 0},
                        {"offline": True, "level": 9},
                    ]
                }
            }
        }
    )


def test_mapping_rows_are_typed_and_leave_features_open() -> None:
    policy = with_rows()
    assert policy.classification.mapping == (
        MappingRow(realtime="high", model_weight="light", grade="vip", level=0),
        MappingRow(offline=True, level=9),
    )
    assert parse(dump(policy)) == policy


def test_a_dump_reads_as_plain_yaml_too() -> None:
    policy = parse(FRAGMENT)
    text = dump(policy)
    assert yaml.safe_load(text) == to_document(policy)
    assert 'min_bandwidth: "40%"' in text
    assert dump(parse(text)) == text


def test_pools_that_a_policy_names() -> None:
    assert named_pools(Policy()) == []
    assert named_pools(parse(FRAGMENT)) == [
        NamedPool("scheduler.queues.P0.dedicated_pool", "gpu-p0", 0),
        NamedPool("scheduler.queues.P1.shared_pool", "gpu-elastic", 1),
        NamedPool("scheduler.queues.P2.shared_pool", "gpu-elastic", 2),
    ]


def test_differences_read_like_the_file() -> None:
    after = parse(
        'scheduler: {queues: {P2: {max_occupy: "45.5%"}}, lanes: {P0: [0, 1], P1: [2, 6]}}'
    )
    assert [str(difference) for difference in differences(Policy(), after)] == [
        "scheduler.lanes.P0: [0, 2] -> [0, 1]",
        "scheduler.lanes.P1: [3, 6] -> [2, 6]",
        "scheduler.queues.P2.max_occupy: 30% -> 45.5%",
    ]
