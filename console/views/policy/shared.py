"""What the pages about the policy have in common."""

from dataclasses import dataclass

from django.http import Http404
from django.utils.translation import gettext as _

from console.policy.words import told
from scheduler.core.policy import Difference, Policy, PolicyError, Spec, differences, leaves
from scheduler.models import PolicyVersion, Pool
from scheduler.selectors.policy import load_policy


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs, with what it is for."""

    path: str
    help: str
    unit: str
    before: str
    after: str


def version_of(number: int) -> PolicyVersion:
    """The version of that number; 404 for none."""
    row = PolicyVersion.objects.select_related("author").filter(version=number).first()
    if row is None:
        raise Http404
    return row


def pool_names() -> list[str]:
    """The pools of the fleet."""
    return list(Pool.objects.order_by("name").values_list("name", flat=True))


def active_policy() -> tuple[int, Policy, str]:
    """The active version and its policy; the defaults and a word for one that can't be read."""
    try:
        number, policy = load_policy()
    except PolicyError as error:
        return 0, Policy(), str(error.problems[0])
    return number, policy, ""


def changes(before: Policy, after: Policy) -> list[Change]:
    """What differs, field by field."""
    known = {path: spec for path, spec, _value in leaves(after)}
    return [_change(each, known.get(each.path)) for each in differences(before, after)]


def _change(each: Difference, spec: Spec | None) -> Change:
    help_text, unit = ("", "") if spec is None else (spec.help, spec.unit)
    return Change(
        each.path.removeprefix("scheduler."),
        _(help_text) if help_text else "",
        unit,
        each.before,
        each.after,
    )


def sentences(error: PolicyError) -> list[str]:
    """All problems of a policy for a page without fields."""
    return [told(problem, None) for problem in error.problems]
