"""Claims above what their caller may have, counted by business and minute."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EscalationMinute:
    """``count`` claims of one business in one minute (minutes since the epoch).

    The rest is the last of them: what was claimed, the best lane allowed, the outcome
    (``clamp`` or ``refuse``) and the request's id.
    """

    business: str
    minute: int
    count: int
    claimed: str
    ceiling: str
    outcome: str
    last_request: str
