"""What is wrong with a policy, in the reader's language.

The schema's own messages are English, for files and logs. The same is said here from the
field's limits; of combinations by where they are broken.
"""

import re

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from scheduler.core.policy import Kind, Problem, Spec

ALL_OR_NONE = "can only change for all businesses at once"
COMBINATIONS = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (
            r"lanes\..+",
            _lazy("Lanes must follow each other without gap or overlap, from level 0 to level 9."),
        ),
        (
            r"queues\..+\.(min_bandwidth|min_share)",
            _lazy("The minimum shares of the three lanes are more than 100 % together."),
        ),
        (
            r"queues\.P2\.max_occupy",
            _lazy("Without borrowing, this and P0's minimum must be at most 100 % together."),
        ),
        (r"backpressure\.clear_ms", _lazy("Must be at most the wait that sets it off.")),
        (r"placement\.weights", _lazy("At least one weight must be above 0.")),
        (
            r"placement\.metrics_window_s",
            _lazy("Must be at least the time between two readings."),
        ),
        (r"queues\..+_pool", _lazy("There is no such pool in the fleet.")),
    )
)


def told(problem: Problem, spec: Spec | None) -> str:
    """One problem as a sentence."""
    if spec is not None and problem.message.startswith(f"must be {spec.allowed()}"):
        return _limits(spec)
    return _combination(problem)


def _limits(spec: Spec) -> str:
    if spec.kind in {Kind.WHOLE, Kind.NUMBER, Kind.SHARE}:
        return _numeric(spec)
    if spec.kind is Kind.LEVELS:
        return _("Must be two levels from 0 to 9, the smaller first.")
    if spec.kind in {Kind.CHOICE, Kind.CHOICES}:
        return _("Must be one of %(words)s.") % {"words": ", ".join(spec.choices)}
    if spec.kind is Kind.TEXT:
        return _("Must be a name of at most %(most)s characters.") % {
            "most": _plain(spec, spec.most)
        }
    if spec.kind is Kind.ROWS:
        return _("At most %(most)s rows.") % {"most": _plain(spec, spec.most)}
    return _("Must be yes or no.")


def _numeric(spec: Spec) -> str:
    least, most = _plain(spec, spec.least), _plain(spec, spec.most)
    unit = "%" if spec.kind is Kind.SHARE else spec.unit
    values = {"least": least, "most": most, "unit": unit}
    if spec.kind is Kind.WHOLE:
        text = _("Must be a whole number from %(least)s to %(most)s %(unit)s.")
    elif spec.above is not None:
        values["least"] = _plain(spec, spec.above)
        text = _("Must be a number above %(least)s and at most %(most)s %(unit)s.")
    else:
        text = _("Must be a number from %(least)s to %(most)s %(unit)s.")
    said = (text % values).replace(" .", ".")
    return f"{said} {_('It may be empty.')}" if spec.optional else said


def _plain(spec: Spec, value: float | None) -> str:
    factor = 100 if spec.kind is Kind.SHARE else 1
    return f"{(value or 0) * factor:.15g}"


def _combination(problem: Problem) -> str:
    if problem.message == ALL_OR_NONE:
        return _("This can only change for all businesses at once.")
    path = problem.path.removeprefix("scheduler.")
    for pattern, text in COMBINATIONS:
        if pattern.fullmatch(path):
            return str(text)
    return str(problem)
