"""One line of the decision log on its way to Postgres."""

from dataclasses import dataclass

from scheduler.core.classify import Classification


@dataclass(frozen=True, slots=True)
class Why:
    """How a request came to its level: the classifier's word, the caller's claim, and the
    version of the policy it was decided by."""

    found: Classification
    claim: str = ""
    policy: int = 0


@dataclass(slots=True)
class DecisionRow:
    """Becomes one ``DecisionLog``, whose fields it has. ``at`` and ``waited`` are ns; ``detail``
    is made of JSON's own types."""

    at: int
    kind: str
    request: str
    other: str = ""
    business: str = ""
    model: str = ""
    lane: int | None = None
    level: int | None = None
    attempt: int = 0
    replica: str = ""
    waited: int = 0
    reason: str = ""
    policy: int = 0
    detail: dict[str, object] | None = None
