"""What a policy file is refused for, and what the refusal says."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from scheduler.core.policy import (
    Lanes,
    Placement,
    Policy,
    PolicyError,
    Queues,
    from_document,
    from_stored,
    problems,
)
from scheduler.core.policy.queues import P2Queue
from scheduler.core.policy.removed import REMOVED
from scheduler.policy_file import parse
from scheduler.yaml_text import MOST_BYTES


def refusal(text: str) -> PolicyError:
    with pytest.raises(PolicyError) as caught:
        parse(text)
    return caught.value


def nested(path: str, value: str) -> str:
    """A file in which one field is set: ``a.b`` and ``1`` give ``{a: {b: 1}}``."""
    for name in reversed(path.split(".")):
        value = f"{{{name}: {value}}}"
    return value


S = "scheduler."
PERCENT = 'must be a percentage such as "40%", at least 0% and at most 100%'


@pytest.mark.parametrize(
    ("path", "value", "allowed"),
    [
        ("mode", "strickt", "must be one of strict, weighted, fifo; got strickt"),
        ("mode", "null", "must be one of"),
        ("mode", "[strict]", "must be one of"),
        ("tick_ms", '"20"', "must be a whole number, at least 1 and at most 1000 ms"),
        ("tick_ms", "20.0", "must be a whole number"),
        ("tick_ms", "true", "must be a whole number"),
        ("tick_ms", "0", "must be a whole number, at least 1"),
        ("tick_ms", "010", "must be a whole number"),
        ("tick_ms", "99999999999999999999999", "must be a whole number"),
        ("lanes.P0", "[0, 2, 3]", "must be a pair of levels such as [0, 2]"),
        ("lanes.P0", "[2, 0]", "must be a pair of levels"),
        ("lanes.P0", "[0, 10]", "at least 0 and at most 9"),
        ("lanes.P0", "[0, true]", "must be a pair of levels"),
        ("lanes.P0", "2", "must be a pair of levels"),
        ("queues.P0.preempt", "1", "must be true or false"),
        ("queues.P0.preempt", "yes", "must be true or false"),
        ("queues.P0.min_bandwidth", "40", PERCENT),
        ("queues.P0.min_bandwidth", "0.4", PERCENT),
        ("queues.P0.min_bandwidth", '"40"', PERCENT),
        ("queues.P0.min_bandwidth", '"140%"', PERCENT),
        ("queues.P0.min_bandwidth", '"-1%"', PERCENT),
        ("queues.P0.min_bandwidth", '"40 %"', PERCENT),
        ("queues.P0.min_bandwidth", '"٤٠%"', PERCENT),
        ("queues.P0.min_bandwidth", "null", PERCENT),
        ("queues.P0.dedicated_pool", '""', "must be a name of at most 63"),
        ("queues.P0.dedicated_pool", '" a"', "must be a name"),
        ("queues.P0.dedicated_pool", "7", "must be a name"),
        ("queues.P0.max_queue", "0", "must be a whole number, at least 1"),
        ("queues.P0.queue_timeout_ms", "30s", "ms; got 30s"),
        ("queues.P0.queue_timeout_ms", "-5", "must be a whole number, at least 1"),
        ("queues.P0.weight", "0", "must be a number, above 0"),
        ("queues.P2.max_occupy", '"101%"', PERCENT),
        ("queues.P2.on_timeout", "move_down", "must be one of refuse"),
        ("queues.P2.max_wait_ms", "0", "must be a whole number, at least 1"),
        ("queues.P1", "null", "must be a mapping"),
        ("queues", "[]", "must be a mapping"),
        ("lending.keep_free", "-1", "must be a whole number, at least 0"),
        ("order.level", "-0.1", "must be a number, at least 0"),
        ("order.level", ".nan", "must be a number"),
        ("order.level", ".inf", "must be a number"),
        ("order.level", "1e999", "must be a number"),
        ("order.level", "9" * 400, "must be a number"),
        ("classification.on_escalation", "allow", "must be one of clamp, refuse"),
        ("classification.mapping", "{}", "must be a list of at most 500 rows"),
        ("placement.top_k", "0", "must be a whole number, at least 1"),
        ("placement.reprice_s", "0", "must be a number, above 0"),
        ("preemption.weights.P0", "-4", "must be a number, above 0"),
        ("failover.connect_ms", "0", "must be a whole number, at least 1"),
        ("backpressure.action", "throttle_P2", "must be a list of any of throttle_P2, refuse_P2"),
        ("backpressure.action", "[throttle_P3]", "must be a list of any of"),
        ("backpressure.action", "[scale_gpu, scale_gpu]", "must be a list of any of"),
        ("backpressure.action", "[[scale_gpu]]", "must be a list of any of"),
        ("backpressure.scale.max_cards", "1.5", "a whole number, at least 0"),
        ("keepalive_s", "15.1", "must be a number, above 0 and at most 15 s"),
        ("header_hold_s", "61", "at most 60 s"),
    ],
)
def test_a_value_that_does_not_fit(path: str, value: str, allowed: str) -> None:
    error = refusal(nested(f"scheduler.{path}", value))
    assert error.path == f"{S}{path}"
    assert allowed in str(error.problems[0])
    assert len(error.problems) == 1


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("queues.P2.max_ocupy", "did you mean max_occupy?"),
        ("queues.P2.overflow", "allowed are shared_pool, max_occupy, borrow"),
        ("queues.P0.shared_pool", "allowed are dedicated_pool, overflow, preempt"),
        ("queues.P1.min_bandwidth", "allowed are shared_pool, preempt"),
        ("queues.P3", "did you mean"),
        ("keepalive", "did you mean keepalive_s?"),
        ("_lane_table", "unknown key"),
        ("backpressure.scale.headrom", "did you mean headroom?"),
    ],
)
def test_an_unknown_key_and_the_nearest_known_one(path: str, hint: str) -> None:
    error = refusal(nested(f"scheduler.{path}", "1"))
    assert error.path == f"{S}{path}"
    assert "unknown key" in str(error)
    assert hint in str(error)


def test_keys_beside_the_one_at_the_top() -> None:
    error = refusal("scheduler: {}\nschedulr: {}")
    assert str(error) == "schedulr: unknown key; the only one allowed is scheduler (line 2)"


def test_rows_have_paths_of_their_own() -> None:
    error = refusal(
        "scheduler:\n  classification:\n    mapping:\n"
        "      - {realtime: high, level: 0}\n"
        "      - {realtime: soon, level: 10}\n"
        "      - {grade: vip}\n"
        "      - 3\n"
    )
    rows = "scheduler.classification.mapping"
    assert [(problem.path, problem.line) for problem in error.problems] == [
        (f"{rows}[1].realtime", 5),
        (f"{rows}[1].level", 5),
        (f"{rows}[2].level", None),
        (f"{rows}[3]", 7),
        (f"{rows}[3].level", None),
    ]


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("lanes: {P0: [1, 2]}", "lanes.P0", "must begin at level 0"),
        ("lanes: {P0: [0, 1]}", "lanes.P1", "must begin at level 2"),
        ("lanes: {P0: [0, 3]}", "lanes.P1", "must begin at level 4"),
        ("lanes: {P2: [7, 8]}", "lanes.P2", "must end at level 9"),
        (
            'queues: {P1: {min_share: "50%"}, P2: {min_share: "10.1%"}}',
            "queues.P1.min_share",
            "at most 100% together; they are 100.1%",
        ),
        (
            'queues: {P2: {borrow: false, max_occupy: "60.5%"}}',
            "queues.P2.max_occupy",
            "must be at most 60%",
        ),
        (
            "backpressure: {p0_wait_ms: 500, clear_ms: 501}",
            "backpressure.clear_ms",
            "must be at most scheduler.backpressure.p0_wait_ms (500 ms)",
        ),
        (
            "placement: {weights: {gpu: 0, memory: 0, queue: 0}}",
            "placement.weights",
            "at least one weight must be above 0",
        ),
        (
            "placement: {metrics_every_s: 30}",
            "placement.metrics_window_s",
            "must be at least scheduler.placement.metrics_every_s (30 s)",
        ),
    ],
)
def test_combinations_that_can_not_work(text: str, path: str, allowed: str) -> None:
    error = refusal(f"scheduler: {{{text}}}")
    assert error.path == f"{S}{path}"
    assert allowed in str(error)


@pytest.mark.parametrize(
    "text",
    [
        'queues: {P1: {min_share: "35%"}, P2: {min_share: "25%"}}',
        'queues: {P2: {borrow: false, max_occupy: "60%"}}',
        'queues: {P2: {borrow: true, max_occupy: "100%"}}',
        "backpressure: {p0_wait_ms: 1000, clear_ms: 1000}",
        "backpressure: {action: []}",
        "placement: {metrics_every_s: 10}",
    ],
)
def test_the_edge_itself_is_allowed(text: str) -> None:
    parse(f"scheduler: {{{text}}}")


def test_every_problem_is_told_at_once() -> None:
    error = refusal(
        "scheduler:\n"
        "  mood: strict\n"
        "  queues:\n"
        '    P0: {min_bandwidth: "95%"}\n'
        "    P1: {min_share: 10}\n"
        "  backpressure: {clear_ms: 3000}\n"
    )
    # The sum of shares is not judged, one of them being unreadable.
    assert [(problem.path, problem.line) for problem in error.problems] == [
        ("scheduler.mood", 2),
        ("scheduler.queues.P1.min_share", 5),
        ("scheduler.backpressure.clear_ms", 6),
    ]
    assert len(str(error).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scheduler: {mode: [}", "line 1: not valid YAML"),
        ("scheduler:\n  mode: strict\n mode: fifo", "line 3: not valid YAML"),
        ("scheduler:\n\tmode: strict", "line 2: not valid YAML"),
        ("scheduler: \x00", "not valid YAML"),
        (
            "scheduler:\n  mode: strict\n  mode: fifo",
            "scheduler.mode: the key stands twice (line 3)",
        ),
        ("a: &a {mode: fifo}\nscheduler: *a", "a: anchors and aliases are not allowed (line 1)"),
        ("scheduler: *a", "scheduler: anchors and aliases are not allowed"),
        ("scheduler: !!map {}", "scheduler: tags are not allowed"),
        ("scheduler: {mode: !!python/name:os.system ''}", "scheduler.mode: tags are not allowed"),
        ("scheduler: {? {a: b} : c}", "scheduler: a key must be text"),
        ("scheduler: {}\n---\nscheduler: {}", "line 2: only one document is allowed"),
        ("[" * 50_000, "nested deeper than 16 levels"),
        ("scheduler: {} #" + "x" * MOST_BYTES, "the file is larger than 128 KiB"),
        ("", "must be a mapping with the key scheduler"),
        ("- scheduler", "must be a mapping with the key scheduler"),
        ("scheduler:", "scheduler: must be a mapping; got null"),
    ],
)
def test_text_that_can_not_be_read(text: str, said: str) -> None:
    assert said in str(refusal(text))


def test_lookalikes_of_numbers_and_booleans_stay_text() -> None:
    policy = parse("scheduler: {queues: {P1: {shared_pool: on}, P2: {shared_pool: 1_0}}}")
    assert (policy.queues.P1.shared_pool, policy.queues.P2.shared_pool) == ("on", "1_0")


def test_a_document_with_keys_that_are_not_text() -> None:
    with pytest.raises(PolicyError) as caught:
        from_document({"scheduler": {7: 1}})
    assert caught.value.path == "scheduler.7"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda policy: replace(policy, mode="sometimes"), "mode"),
        (lambda policy: replace(policy, keepalive_s=float("nan")), "keepalive_s"),
        (lambda policy: replace(policy, keepalive_s=0.0), "keepalive_s"),
        (lambda policy: replace(policy, lanes=Lanes(P1=(4, 6))), "lanes.P1"),
        (lambda policy: replace(policy, placement=Placement(top_k=0)), "placement.top_k"),
        (
            lambda policy: replace(policy, queues=Queues(P2=P2Queue(max_occupy=1.5))),
            "queues.P2.max_occupy",
        ),
    ],
)
def test_a_tree_that_was_built_in_code(change: Callable[[Policy], Policy], path: str) -> None:
    found = problems(change(Policy()))
    assert [problem.path for problem in found] == [f"{S}{path}"]


@pytest.mark.parametrize("path", sorted(REMOVED))
def test_a_field_that_has_been_removed_is_refused_with_the_reason(path: str) -> None:
    text = nested(path, '"85%"')
    (problem,) = refusal(text).problems
    assert (problem.path, problem.line) == (path, 1)
    assert problem.message == f"has been removed, leave it out: {REMOVED[path].why}"


@pytest.mark.parametrize("name", ["by_p0_backlog", "by_load"])
def test_a_file_may_name_a_removed_field_that_says_what_holds_anyway(name: str) -> None:
    assert parse(nested(f"scheduler.backpressure.scale.{name}", "true")) == Policy()
    for other in ("false", "1", "'true'", "null"):
        (problem,) = refusal(nested(f"scheduler.backpressure.scale.{name}", other)).problems
        assert "leave scale_gpu out of scheduler.backpressure.action" in problem.message


@pytest.mark.parametrize(
    ("backlog", "load", "action"),
    [
        (True, True, ("throttle_P2", "scale_gpu")),
        (True, False, ("throttle_P2", "scale_gpu")),
        (False, True, ("throttle_P2", "scale_gpu")),
        (False, False, ("throttle_P2",)),
    ],
)
def test_where_a_stored_version_had_nothing_scale_nothing_does(
    backlog: bool, load: bool, action: tuple[str, ...]
) -> None:
    scale = {"by_p0_backlog": backlog, "by_load": load}
    rules = {"action": ["throttle_P2", "scale_gpu"], "scale": scale}
    document = {"scheduler": {"backpressure": rules}}
    kept = deepcopy(document)
    assert from_stored(document).backpressure.action == action
    assert document == kept


def test_a_version_that_was_stored_with_removed_fields_still_loads() -> None:
    feedback = {"enabled": False, "load_high": "85%", "load_clear": "70%"}
    stored = {"scheduler": {"mode": "weighted", "feedback": feedback}}
    assert from_stored(stored) == replace(
        Policy(), mode="weighted", feedback=replace(Policy().feedback, enabled=False)
    )
    # Nothing else is passed over.
    with pytest.raises(PolicyError, match="unknown key"):
        from_stored({"scheduler": {"feedback": {"load_heigh": "85%"}}})
