"""Where a plain scheduler is nowhere worse than ours and somewhere clearly better.

Compared are P0 in budget, P1 and P2 success, and P0's P95. Nowhere worse: within half a point, and
within 3 % of the P95. Clearly better: by one point of P0 in budget, two of the others, 10 % of the
P95.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from .figures import RunFigures

WORSE = 0.005
WORSE_P95 = 1.03
BETTER_P95 = 1.1


@dataclass(frozen=True, slots=True)
class Standing:
    """What is compared of a run; shares are ratios, None where nothing came."""

    p0_in_budget: float | None
    p1_success: float | None
    p2_success: float | None
    p0_p95_ms: float | None

    @classmethod
    def of(cls, run: RunFigures) -> "Standing":
        """Those of a run's figures."""
        lanes = run["lanes"]
        return cls(
            lanes["P0"]["budget_met_ratio"],
            lanes["P1"]["success_ratio"],
            lanes["P2"]["success_ratio"],
            run["p0_p95_ms"],
        )

    def shares(self) -> tuple[tuple[str, float, float | None], ...]:
        """The name of each share, what is clearly better, and its value."""
        return (
            ("P0 in budget", 0.01, self.p0_in_budget),
            ("P1 success", 0.02, self.p1_success),
            ("P2 success", 0.02, self.p2_success),
        )


@dataclass(frozen=True, slots=True)
class Domination:
    """A plain scheduler that dominates, and where it is clearly better, with both figures."""

    plain: str
    better: tuple[str, ...]

    def __str__(self) -> str:
        """One line for people."""
        return f"dominated by {self.plain}: {'; '.join(self.better)}"


def better_in(plain: Standing, ours: Standing) -> tuple[str, ...]:
    """Where the plain one is clearly better; nothing if it is worse anywhere."""
    found = []
    for (name, clearly, own), (_, _, other) in zip(ours.shares(), plain.shares(), strict=True):
        if own is None or other is None:
            continue
        if other < own - WORSE:
            return ()
        if other > own + clearly:
            found.append(f"{name} {own:.1%} against {other:.1%}")
    own, other = ours.p0_p95_ms, plain.p0_p95_ms
    if own and other:
        if other > WORSE_P95 * own:
            return ()
        if own > BETTER_P95 * other:
            found.append(f"P0 P95 {own:,.0f} against {other:,.0f} ms")
    return tuple(found)


def domination(ours: RunFigures, plain: Mapping[str, RunFigures]) -> Domination | None:
    """The plain scheduler that is clearly better in most, if any dominates."""
    own = Standing.of(ours)
    found = [Domination(name, better_in(Standing.of(run), own)) for name, run in plain.items()]
    worst = max(found, key=lambda one: len(one.better), default=None)
    return worst if worst is not None and worst.better else None
