"""A request as the scheduler sees it: who, how urgent, how big. No text, no money."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request that asks for a slot.

    ``id`` is unique for all time. ``lane`` 0-2 and ``level`` 0-9 come from the classifier;
    ``arrived`` is the gateway's clock in ns. ``tokens`` is what the request will hold in
    the KV cache at most as estimated at arrival: prompt + expected output.
    """

    id: str
    business: str
    model: str
    lane: int
    level: int
    arrived: int
    tokens: int = 0
