"""Which decisions are written down, and how much of each.

Every decision is a compact row. In full, with features, claim, and candidates with scores:
preemptions, refusals, lighter models, promotions, dispatches that came later than the request's
budget, and the dispatches for which the core gives scores, one in a hundred. A preemption gets a
second row when it is over: what it was expected to bring, and what it brought.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from scheduler.core.decisions import Degrade, Dispatch, Kind, Notice, Preempt, Promote, Reject
from scheduler.guard import shielded

from .row import DecisionRow

if TYPE_CHECKING:
    from scheduler.calls import Call
    from scheduler.ports import DecisionSink

MS = 1_000_000
ABOUT_BUSINESSES = {Kind.SUSPENDED, Kind.RESTORED, Kind.ADJUSTED}
ABOUT_MODELS = {
    Kind.PRESSED,
    Kind.RELIEVED,
    Kind.THROTTLED,
    Kind.COLD_START,
    Kind.WARM,
    Kind.COLD_FAILED,
    Kind.COLD_OVER,
    Kind.PATH_COLD,
    Kind.PATH_HOT,
}
# Notices whose value is a time.
TIMES = frozenset({Kind.SUSPENDED, Kind.BROKEN, Kind.COLD_FAILED})
Detail = dict[str, object]


@dataclass(slots=True)
class Pause:
    """A preemption under way. Times are ns; 0: it has not come to that."""

    decision: Preempt
    at: int
    freed: int = 0
    produced: int = 0
    served: int = 0


class Recorder:
    """Turns decisions into rows. Called by the actor alone; cheap. ``over`` hears the replica
    and the outcome of each preemption: resumed, ended, refused or not_stopped."""

    def __init__(self, sink: "DecisionSink", over: Callable[[str, str], None]) -> None:
        self._sink = sink
        self._told = over
        self._pauses: dict[str, Pause] = {}
        self._gaining: dict[str, Pause] = {}

    def dispatched(self, call: "Call", decision: Dispatch, now: int) -> None:
        """A slot was given out."""
        budget = call.ticket.budget
        row = _row("dispatch", call, now, decision.waited)
        row.attempt, row.replica = decision.attempt, decision.replica
        if decision.scores or (budget is not None and decision.waited > budget):
            row.detail = _detail(call)
            if decision.scores:
                row.detail["scores"] = [[name, round(score, 4)] for name, score in decision.scores]
        elif call.moved:
            row.detail = {"adjusted": call.moved}
        self._write(row)
        gaining = self._gaining.pop(call.ticket.id, None)
        if gaining is not None:
            gaining.served = now
        pause = self._pauses.get(call.ticket.id)
        if pause is not None:
            self._over(call, pause, now, "resumed")

    def refused(self, call: "Call", decision: Reject, queued: int, now: int) -> None:
        """A request ends unserved; ``queued`` is how many wait in its lane."""
        row = _row("refuse", call, now, now - call.ticket.arrived)
        row.reason = decision.reason.value
        row.detail = _detail(call)
        row.detail["retry_after_ms"] = round(decision.retry_after / MS)
        row.detail["queued"] = queued
        self._write(row)
        self._forget(call, now, "refused")

    def degraded(self, call: "Call", decision: Degrade, now: int) -> None:
        """A lighter model is to answer; the row is about the one that was asked for."""
        row = _row("degrade", call, now, now - call.ticket.arrived)
        row.reason = decision.reason.value
        row.detail = {
            **_detail(call),
            "answered_by": decision.model,
            "late_ms": round(decision.late / MS),
        }
        self._write(row)

    def promoted(self, call: "Call", decision: Promote, now: int) -> None:
        """The starvation guard gave an overdue request a slot."""
        row = _row("promote", call, now, decision.waited)
        row.detail = _detail(call)
        self._write(row)

    def noticed(self, notice: Notice, now: int) -> None:
        """The scheduler has changed its ways with a business, a replica, a pool or a lane."""
        whose = notice.name
        row = DecisionRow(now, "notice", "", reason=notice.kind.value)
        if notice.kind in ABOUT_BUSINESSES:
            row.business, _, row.model = whose.partition("/")
        elif notice.kind in ABOUT_MODELS:
            row.model = whose
        row.detail = {"name": whose, "cause": notice.cause, "value": notice.value}
        self._write(row)

    def preempted(self, call: "Call", decision: Preempt, now: int) -> None:
        """A running attempt (``call``) is told to stop for another request."""
        row = _row("preempt", call, now, now - call.ticket.arrived)
        row.other, row.attempt, row.replica = (
            decision.beneficiary,
            decision.attempt,
            decision.replica,
        )
        row.detail = {**_detail(call), **_estimates(decision)}
        self._write(row)
        pause = Pause(decision, now)
        self._pauses[call.ticket.id] = pause
        self._gaining[decision.beneficiary] = pause

    def yielded(self, call: "Call", produced: int, now: int) -> None:
        """The attempt has stopped; ``produced`` output tokens are kept."""
        pause = self._pauses.get(call.ticket.id)
        if pause is not None and not pause.freed:
            pause.freed, pause.produced = now, produced

    def closed(self, call: "Call", now: int) -> None:
        """The request is over, however it ended."""
        self._gaining.pop(call.ticket.id, None)
        self._forget(call, now, "ended")

    def _write(self, row: DecisionRow) -> None:
        """A row that is not taken is lost, and no more than that."""
        shielded("a decision was not written down", self._sink.append, row)

    def _forget(self, call: "Call", now: int, outcome: str) -> None:
        pause = self._pauses.get(call.ticket.id)
        if pause is not None:
            self._over(call, pause, now, outcome)

    def _over(self, call: "Call", pause: Pause, now: int, outcome: str) -> None:
        """The victim runs again or is gone: what the preemption brought can be told."""
        decision = pause.decision
        del self._pauses[call.ticket.id]
        if self._gaining.get(decision.beneficiary) is pause:
            del self._gaining[decision.beneficiary]
        row = _row("outcome", call, now, now - call.ticket.arrived)
        row.other, row.attempt, row.replica = (
            decision.beneficiary,
            decision.attempt,
            decision.replica,
        )
        row.reason = outcome if pause.freed else "not_stopped"
        row.detail = {
            **_estimates(decision),
            "freed_after_ms": _ms(pause.freed, pause.at),
            "served_after_ms": _ms(pause.served, pause.at),
            "victim_delay_ms": _ms(now if pause.freed else 0, pause.at),
            "produced_tokens_kept": pause.produced,
        }
        self._write(row)
        self._told(decision.replica, row.reason)


def _row(kind: str, call: "Call", now: int, waited: int) -> DecisionRow:
    ticket = call.ticket
    return DecisionRow(
        now,
        kind,
        ticket.id,
        "",
        ticket.business,
        ticket.model,
        ticket.lane,
        ticket.level,
        call.attempt,
        "",
        waited,
        policy=0 if call.why is None else call.why.policy,
    )


def _detail(call: "Call") -> Detail:
    """What the level was made of, and what the caller had asked for."""
    why = call.why
    if why is None:
        return {}
    return {
        "features": asdict(why.found.features),
        "claim": why.claim,
        "base_level": why.found.base_level,
        "because": why.found.reason,
        **({"adjusted": call.moved} if call.moved else {}),
    }


def _estimates(decision: Preempt) -> Detail:
    return {
        "gain_ms": round(decision.gain / MS),
        "cost_ms": round(decision.cost / MS),
        "est_remain_ms": round(decision.remain / MS),
    }


def _ms(at: int, since: int) -> int | None:
    return round((at - since) / MS) if at else None
