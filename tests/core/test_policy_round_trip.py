"""Whatever policy is allowed, its file gives back exactly that policy."""

import json
import math
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.core.policy import Kind, Policy, PolicyError, Queues, Section, Spec, problems, specs
from scheduler.core.policy.document import percent
from scheduler.policy_file import dump, from_document, parse, to_document

# How long an example takes says something of the machine, and nothing of the policy.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

NAMES = st.one_of(
    st.sampled_from(["yes", "null", "~", "010", "1e3", "0x1F", "40%", "- a", "a: b", "#", "P0"]),
    st.text(min_size=1, max_size=63).filter(
        lambda name: name == name.strip() and name.isprintable()
    ),
)


def values(spec: Spec) -> st.SearchStrategy[object]:
    """Anything a field allows by itself."""
    least, most = spec.least or 0, spec.most or 0
    made: st.SearchStrategy[object]
    if spec.kind is Kind.FLAG:
        made = st.booleans()
    elif spec.kind is Kind.WHOLE:
        made = st.integers(int(least), int(most))
    elif spec.kind in {Kind.NUMBER, Kind.SHARE}:
        low = spec.above if spec.above is not None else least
        made = st.floats(low, most, exclude_min=spec.above is not None)
    elif spec.kind is Kind.TEXT:
        made = NAMES
    elif spec.kind is Kind.CHOICE:
        made = st.sampled_from(spec.choices)
    elif spec.kind is Kind.CHOICES:
        made = st.lists(st.sampled_from(spec.choices), unique=True).map(tuple)
    elif spec.kind is Kind.ROWS:
        assert spec.section is not None
        made = st.lists(sections(spec.section), max_size=4).map(tuple)
    else:
        assert spec.section is not None
        made = sections(spec.section)
    return st.none() | made if spec.optional else made


def sections(section: type[Section]) -> st.SearchStrategy[Section]:
    fixed = {name: values(spec) for name, spec in specs(section) if spec.kind is not Kind.LEVELS}
    if section.__name__ == "Lanes":
        cuts = st.tuples(st.integers(0, 7), st.integers(0, 8)).filter(lambda cut: cut[0] < cut[1])
        return cuts.map(
            lambda cut: section(  # type: ignore[call-arg]
                P0=(0, cut[0]), P1=(cut[0] + 1, cut[1]), P2=(cut[1] + 1, 9)
            )
        )
    return st.builds(section, **fixed)


def workable(policy: Section) -> Policy:
    """The same policy with the combinations that can't work put right."""
    assert isinstance(policy, Policy)
    queues, pressure, placement = policy.queues, policy.backpressure, policy.placement
    return replace(
        policy,
        queues=Queues(
            P0=replace(queues.P0, min_bandwidth=queues.P0.min_bandwidth / 3),
            P1=replace(queues.P1, min_share=queues.P1.min_share / 3),
            P2=replace(queues.P2, min_share=queues.P2.min_share / 3, borrow=True),
        ),
        backpressure=replace(pressure, clear_ms=min(pressure.clear_ms, pressure.p0_wait_ms)),
        placement=replace(
            placement,
            weights=replace(placement.weights, gpu=max(placement.weights.gpu, 0.1)),
            metrics_window_s=max(placement.metrics_window_s, placement.metrics_every_s),
        ),
    )


def attempt(document: object) -> tuple[Policy | None, list[str]]:
    """What reading a text or a document comes to: a policy, or the paths of its problems."""
    try:
        read = parse(document) if isinstance(document, str) else from_document(document)
    except PolicyError as error:
        return None, [problem.path for problem in error.problems]
    return read, []


@PATIENT
@given(sections(Policy).map(workable))
def test_a_dump_gives_back_the_policy(policy: Policy) -> None:
    assert problems(policy) == []
    assert attempt(dump(policy)) == (policy, [])
    assert attempt(json.loads(json.dumps(to_document(policy)))) == (policy, [])


@PATIENT
@given(sections(Policy))
def test_a_tree_and_its_file_are_refused_for_the_same(policy: Section) -> None:
    assert isinstance(policy, Policy)
    wrong = [problem.path for problem in problems(policy)]
    assert attempt(dump(policy)) == (None if wrong else policy, wrong)


@PATIENT
@given(st.floats(0, 1))
def test_a_percentage_gives_back_its_ratio(ratio: float) -> None:
    text = percent(ratio)
    policy = parse(
        f'scheduler: {{queues: {{P0: {{min_bandwidth: "{text}", preempt: true}},'
        ' P1: {min_share: "0%"}, P2: {min_share: "0%"}}}'
    )
    assert policy.queues.P0.min_bandwidth == ratio
    assert math.copysign(1, policy.queues.P0.min_bandwidth) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([name for name, _ in specs(Policy)]), inner, max_size=3)
    ),
    max_leaves=12,
)


@PATIENT
@given(JSON)
def test_any_document_is_read_or_refused(document: object) -> None:
    policy, wrong = attempt({"scheduler": document})
    assert (policy is None) == bool(wrong)
    assert all(path.startswith("scheduler") for path in wrong)
    assert policy is None or problems(policy) == []


@PATIENT
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    policy, wrong = attempt(text)
    assert (policy is None) == bool(wrong)
