"""The pages about the policy: forms from the schema, drafts, activation, rollback."""

from collections.abc import Callable
from dataclasses import replace
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils.datastructures import MultiValueDict

from console.policy.form import PolicyForm
from metering.models import AuditEntry
from scheduler.core.policy import MappingRow, Policy, leaves
from scheduler.models import Canary, PolicyVersion, Pool
from scheduler.policy_file import dump, parse
from scheduler.services.policy import active_policy, import_policy, save_version

from .conftest import People

Browser = Callable[[str], Client]
pytestmark = pytest.mark.django_db


def posted(form: PolicyForm, **changes: str | list[str] | None) -> dict[str, object]:
    """What a browser sends for a form, with some inputs changed (None: unticked)."""
    data: dict[str, object] = {"mapping-rows": str(len(form.rows))}
    shown = [*form._fields.values(), *(field for row in form.rows for field in row.fields)]
    for field in shown:
        if field.widget == "range":
            data[f"{field.name}.least"], data[f"{field.name}.most"] = field.texts
        elif field.widget == "many":
            data[field.name] = field.texts
        elif field.widget != "flag":
            data[field.name] = field.text
        elif field.text == "true":
            data[field.name] = "on"
    for name, value in changes.items():
        if value is None:
            data.pop(name)
        else:
            data[name] = value
    return data


def changed(policy: Policy, **changes: str | list[str] | None) -> PolicyForm:
    data = posted(PolicyForm(policy, []), **changes)
    given = MultiValueDict(
        {name: value if isinstance(value, list) else [value] for name, value in data.items()}
    )
    return PolicyForm(policy, [], given)


ODD = replace(
    Policy(),
    mode="weighted",
    placement=replace(Policy().placement, band=0.0123456789, top_k=7),
    starvation=replace(Policy().starvation, pool_share=0.123),
    classification=replace(
        Policy().classification,
        mapping=(MappingRow(grade="vip", offline=False, level=3), MappingRow(level=6)),
    ),
)


@pytest.mark.parametrize("policy", [Policy(), ODD], ids=["defaults", "odd"])
def test_a_form_that_nobody_has_touched_changes_nothing(policy: Policy) -> None:
    form = changed(policy)
    assert form.is_valid(), form.problems
    assert form.policy == policy


def test_every_field_of_the_schema_is_on_the_form_with_its_help_and_unit() -> None:
    form = PolicyForm(ODD, [])
    names = {f"scheduler.{field.path}" for field in form._fields.values()}
    names |= {f"scheduler.{field.path}" for row in form.rows[:2] for field in row.fields}
    wanted = {path for path, _spec, _value in leaves(ODD)} - {"scheduler.classification.mapping"}
    assert names == wanted
    # An input that only offers what it was given would be no input.
    assert form._fields["queues.P2.latency_budget_ms"].choices == []
    assert all(field.help for field in form._fields.values())
    assert form._fields["queues.P0.queue_timeout_ms"].unit == "ms"
    assert form._fields["queues.P0.min_bandwidth"].unit == "%"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("tick_ms", "soon", "whole number from 1 to 1000 ms"),
        ("tick_ms", "", "whole number"),
        ("tick_ms", "0", "whole number"),
        ("queues.P2.max_occupy", "140", "from 0 to 100 %"),
        ("queues.P2.weight", "-1", "above 0"),
        ("queues.P2.max_wait_ms", "0.5", "whole number"),
        ("backpressure.clear_ms", "5000", "the wait that sets it off"),
        ("mode", "chaos", "one of strict, weighted, fifo"),
        ("lanes.P0.most", "5", "without gap or overlap"),
    ],
)
def test_a_mistake_is_told_at_its_field(name: str, text: str, said: str) -> None:
    """Case G07: nonsense is refused at its field, and nothing else is touched."""
    form = changed(Policy(), **{name: text})
    assert not form.is_valid()
    wrong = {field.path: field.errors for field in form._fields.values() if field.errors}
    path = name.removesuffix(".most").replace("lanes.P0", "lanes.P1")
    assert set(wrong) == {path}
    assert said in wrong[path][0]
    # What was typed is still there.
    assert name == "lanes.P0.most" or form._fields[name].text == text
    assert sum(topic.wrong for topic in form.topics) == 1


def test_one_field_changes_one_field() -> None:
    form = changed(ODD, **{"queues.P1.weight": "4", "queues.P0.overflow": None})
    assert form.is_valid(), form.problems
    queues = ODD.queues
    assert form.policy == replace(
        ODD,
        queues=replace(
            queues, P0=replace(queues.P0, overflow=False), P1=replace(queues.P1, weight=4.0)
        ),
    )


def test_an_empty_budget_is_none_and_a_pool_that_is_gone_stays_on_the_form() -> None:
    queues = Policy().queues
    named = replace(
        Policy(),
        queues=replace(queues, P2=replace(queues.P2, shared_pool="gone", latency_budget_ms=5)),
    )
    form = changed(named, **{"queues.P2.latency_budget_ms": ""})
    assert form.is_valid(), form.problems
    assert form.policy is not None
    assert form.policy.queues.P2.latency_budget_ms is None
    assert form.policy.queues.P2.shared_pool == "gone"


def test_rows_of_the_mapping_are_added_moved_and_removed() -> None:
    row = "classification.mapping[{}].{}".format
    form = changed(
        ODD,
        **{
            row(0, "place"): "9",
            row(1, "level"): "",
            row(2, "grade"): "basic",
            row(2, "level"): "8",
        },
    )
    assert form.is_valid(), form.problems
    assert form.policy is not None
    assert form.policy.classification.mapping == (
        MappingRow(grade="basic", level=8),
        MappingRow(grade="vip", offline=False, level=3),
    )
    wrong = changed(ODD, **{row(1, "level"): "12"})
    assert not wrong.is_valid()
    assert wrong.rows[1].fields[-1].errors


def test_saving_makes_a_draft_that_the_active_policy_is_compared_with(
    people: People, signed_in: Browser
) -> None:
    import_policy(Policy(), active=True, author=None, reason="first")
    browser = signed_in("operator")
    data = posted(PolicyForm(Policy(), []), **{"queues.P2.max_wait_ms": "45000"})
    answer = browser.post("/ops/policy/edit/0/", {**data, "seen": "1", "reason": "sooner"})
    assert answer.headers["Location"] == "/ops/policy/2/"
    draft = PolicyVersion.objects.get(version=2)
    assert (draft.active, draft.author, draft.reason) == (False, people.operator, "sooner")
    page = unescape(browser.get("/ops/policy/2/").content.decode())
    assert "queues.P2.max_wait_ms" in page
    assert "<del>90000</del>" in page
    assert "<ins>45000</ins>" in page
    assert active_policy()[0] == 1


def test_the_second_of_two_editors_is_told(people: People, signed_in: Browser) -> None:
    """Nothing of theirs is lost, and nothing of the first's is written over."""
    import_policy(Policy(), active=True, author=None, reason="first")
    first, second = signed_in("operator"), signed_in("admin")
    for browser in (first, second):
        assert 'name="seen" value="1"' in " ".join(
            browser.get("/ops/policy/edit/0/").content.decode().split()
        )
    form = PolicyForm(Policy(), [])
    mine = {**posted(form, tick_ms="30"), "seen": "1", "reason": "slower"}
    assert first.post("/ops/policy/edit/0/", mine).status_code == 302
    theirs = {**posted(form, keepalive_s="7"), "seen": "1", "reason": "livelier"}
    told = second.post("/ops/policy/edit/0/", theirs)
    assert told.status_code == 409
    page = unescape(told.content.decode())
    assert "operator has saved policy 2" in page
    assert "tick_ms" in page
    assert 'value="livelier"' in page
    assert PolicyVersion.objects.count() == 2
    again = second.post("/ops/policy/edit/0/", {**theirs, "seen": "2"})
    assert again.headers["Location"] == "/ops/policy/3/"
    assert PolicyVersion.objects.get(version=3).author == people.admin


def test_activation_names_author_and_reason_and_a_rollback_takes_one_click(
    people: People, signed_in: Browser
) -> None:
    import_policy(Policy(), active=True, author=None, reason="first")
    save_version(replace(Policy(), tick_ms=30), author=people.operator, reason="slower")
    browser = signed_in("operator")
    assert browser.post("/ops/policy/2/activate/", {"reason": "try it"}).status_code == 302
    entry = AuditEntry.objects.filter(action="policy.activate").latest("pk")
    assert (entry.actor, entry.target) == (people.operator, "policy 2")
    assert entry.data["reason"] == "try it"
    page = browser.get("/ops/policy/").content.decode()
    assert "Rollback to policy 1" in page
    browser.post("/ops/policy/1/activate/", {"reason": "Rollback to policy 1"})
    assert active_policy()[0] == 1


def test_a_pool_that_is_not_there_is_refused_at_activation(
    people: People, signed_in: Browser
) -> None:
    Pool.objects.create(name="gpu", lanes=["P0"])
    queues = Policy().queues
    named = replace(Policy(), queues=replace(queues, P1=replace(queues.P1, shared_pool="gone")))
    save_version(named, author=None, reason="")
    answer = signed_in("operator").post("/ops/policy/1/activate/", {"reason": "why not"})
    assert answer.status_code == 422
    assert "no such pool" in answer.content.decode()
    assert active_policy()[0] == 0


def test_a_file_goes_out_and_comes_in_again(people: People, signed_in: Browser) -> None:
    import_policy(ODD, active=True, author=None, reason="odd")
    browser = signed_in("operator")
    answer = browser.get("/ops/policy/1/export/")
    assert "policy-1.yaml" in answer.headers["Content-Disposition"]
    assert parse(answer.content.decode()) == ODD
    file = SimpleUploadedFile("mine.yaml", dump(Policy()).encode())
    assert browser.post("/ops/policy/import/", {"file": file}).status_code == 302
    row = PolicyVersion.objects.get(version=2)
    assert (row.reason, row.active) == ("Import of mine.yaml", False)
    wrong = SimpleUploadedFile("bad.yaml", b"scheduler:\n  queues:\n    P0: {weigth: 3}\n")
    refused = browser.post("/ops/policy/import/", {"file": wrong})
    assert refused.status_code == 422
    assert "did you mean weight?" in unescape(refused.content.decode())
    assert PolicyVersion.objects.count() == 2


def test_a_canary_is_started_and_ended_on_the_pages(people: People, signed_in: Browser) -> None:
    import_policy(Policy(), active=True, author=None, reason="first")
    order = replace(Policy().order, deadline=0.9)
    save_version(replace(Policy(), order=order), author=None, reason="")
    browser = signed_in("operator")
    data = {
        "businesses": ["alpha"],
        "sla_points": "5",
        "refusal_points": "2.5",
        "p95_factor": "1.5",
        "least_samples": "200",
        "reason": "see",
    }
    assert browser.post("/ops/policy/2/canary/", {**data, "least_samples": "5"}).status_code == 422
    assert browser.post("/ops/policy/2/canary/", data).status_code == 302
    canary = Canary.objects.get()
    assert (canary.businesses, canary.author) == (["alpha"], people.operator)
    assert canary.limits["refusal_points"] == pytest.approx(0.025)
    page = browser.get("/ops/policy/").content.decode()
    assert "Canary of policy 2" in page
    browser.post(f"/ops/canary/{canary.pk}/end/", {"reason": "seen"})
    canary.refresh_from_db()
    assert canary.state == Canary.State.ENDED
    assert AuditEntry.objects.filter(action="canary.end", actor=people.operator).count() == 1
