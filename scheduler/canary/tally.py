"""Counts of requests under a canary and beside it. Mergeable, and of bounded size."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil, log

LANES = 3
# Waits are counted in buckets that grow by a tenth, from a millisecond to about five hours.
GROWTH = 1.1
BUCKETS = 176


def bucket_of(wait_ms: float) -> int:
    """The bucket of a wait; 0 is up to a millisecond."""
    if wait_ms <= 1.0:
        return 0
    return min(BUCKETS, ceil(log(wait_ms) / log(GROWTH)))


@dataclass(slots=True)
class Group:
    """Requests of one lane. ``due`` had a latency budget, ``missed`` it; ``waits`` counts waits
    for a slot by bucket."""

    samples: int = 0
    refused: int = 0
    due: int = 0
    missed: int = 0
    waits: dict[int, int] = field(default_factory=dict)

    def add(self, other: "Group") -> None:
        """Take another's counts in."""
        self.samples += other.samples
        self.refused += other.refused
        self.due += other.due
        self.missed += other.missed
        for bucket, count in other.waits.items():
            self.waits[bucket] = self.waits.get(bucket, 0) + count

    def p95_ms(self) -> float | None:
        """The P95 wait to about a tenth; None of none."""
        total = sum(self.waits.values())
        if not total:
            return None
        rank, seen = ceil(0.95 * total), 0
        for bucket in sorted(self.waits):
            seen += self.waits[bucket]
            if seen >= rank:
                return round(GROWTH**bucket, 1) if bucket else 0.0
        raise AssertionError("a rank lies within its total")


@dataclass(slots=True)
class Tally:
    """Both groups by lane: the lane that the active policy gives, so that a draft which moves
    requests elsewhere is still held against what they would have had."""

    canary: list[Group] = field(default_factory=lambda: [Group() for _ in range(LANES)])
    control: list[Group] = field(default_factory=lambda: [Group() for _ in range(LANES)])

    def add(self, other: "Tally") -> None:
        """Take another's counts in."""
        for mine, more in ((self.canary, other.canary), (self.control, other.control)):
            for group, part in zip(mine, more, strict=True):
                group.add(part)

    @property
    def empty(self) -> bool:
        """Whether nothing has been counted."""
        return not any(group.samples for group in (*self.canary, *self.control))

    def as_dict(self) -> dict[str, object]:
        """JSON's own types; ``from_dict`` reads it back."""
        return {name: [_out(group) for group in getattr(self, name)] for name in _NAMES}

    @classmethod
    def from_dict(cls, held: Mapping[str, object]) -> "Tally":
        """What ``as_dict`` made; an empty mapping is an empty tally."""
        found = cls()
        for name in _NAMES:
            groups = held.get(name)
            if isinstance(groups, list):
                setattr(found, name, [_in(group) for group in groups])
        return found


_NAMES = ("canary", "control")


def _out(group: Group) -> dict[str, object]:
    return {
        "samples": group.samples,
        "refused": group.refused,
        "due": group.due,
        "missed": group.missed,
        "waits": {str(bucket): count for bucket, count in sorted(group.waits.items())},
    }


def _in(held: Mapping[str, object]) -> Group:
    waits = held["waits"]
    assert isinstance(waits, dict), "a tally is read as it was written"
    numbers = {name: held[name] for name in ("samples", "refused", "due", "missed")}
    return Group(
        **{name: int(str(value)) for name, value in numbers.items()},
        waits={int(bucket): int(count) for bucket, count in waits.items()},
    )
