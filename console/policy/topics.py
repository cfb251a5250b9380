"""Which sections of the policy stand together on the form."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from scheduler.core.policy import Policy, specs


@dataclass(frozen=True, slots=True)
class Topic:
    """Some fields and sections of the policy's root, under one heading."""

    key: str
    title: Promise
    about: Promise
    names: tuple[str, ...]


TOPICS = (
    Topic(
        "classification",
        _("Classification"),
        _("From what is known about a request to its level, and what a claim may do."),
        ("classification",),
    ),
    Topic(
        "lanes",
        _("Lanes"),
        _("How levels make lanes, what each lane may use, and in which order it is served."),
        ("mode", "tick_ms", "lanes", "bands", "queues", "starvation", "lending", "order"),
    ),
    Topic(
        "preemption",
        _("Preemption"),
        _("When running work makes room for more urgent work, and what is tuned by itself."),
        ("preemption", "feedback"),
    ),
    Topic(
        "placement",
        _("Placement"),
        _("Which replica a request goes to, and what happens when one fails or none is ready."),
        ("placement", "failover", "paths", "cold_start"),
    ),
    Topic(
        "backpressure",
        _("Backpressure and scaling"),
        _("What happens when urgent work waits too long, and how many replicas are asked for."),
        ("backpressure",),
    ),
    Topic(
        "admission",
        _("Admission"),
        _("What is decided before a request is queued, and how it is kept waiting."),
        ("admission", "tenant_breaker", "keepalive_s", "header_hold_s"),
    ),
)

# What is left over would silently keep its value for ever.
assert {name for topic in TOPICS for name in topic.names} == {name for name, _spec in specs(Policy)}
