"""Waiting requests: lane, then level and model, then business, then the request's key."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from .line import Line
from .replica import Replica
from .request import Phase, Request
from .tenant import Tenant

Levels = dict[int, dict[str, Line]]


def no_levels() -> tuple[Levels, Levels, Levels]:
    """Three empty lanes."""
    return {}, {}, {}


@dataclass(slots=True)
class Queues:
    """All lines, and the few requests that must avoid a replica that failed them. A request
    stays in the lane it was queued in, whatever the policy becomes. ``oldest`` has the
    lowest lane's requests by model in order of arrival, for the starvation guard."""

    lanes: tuple[Levels, Levels, Levels] = field(default_factory=no_levels)
    waiting: dict[tuple[str, int], int] = field(default_factory=dict)
    retries: list[Request] = field(default_factory=list)
    oldest: dict[str, deque[tuple[int, Request]]] = field(default_factory=dict)

    def push(self, request: Request, served: float) -> None:
        """Queue a request; one that failed somewhere goes among the retries."""
        ticket, lane = request.ticket, request.lane
        flow = (ticket.model, lane)
        self.waiting[flow] = self.waiting.get(flow, 0) + 1
        if lane == 2:
            self._remember(request)
        if request.tried:
            self.retries.append(request)
            return
        models = self.lanes[lane].setdefault(ticket.level, {})
        line = models.get(ticket.model)
        if line is None:
            line = models[ticket.model] = Line(lane)
        line.push(request, served)

    def drop(self, request: Request) -> None:
        """Take out a request that waits no longer; its phase says so already."""
        ticket, lane = request.ticket, request.lane
        flow = (ticket.model, lane)
        self.waiting[flow] -= 1
        if not self.waiting[flow]:
            del self.waiting[flow]
        if request.tried:
            self.retries.remove(request)
            return
        levels = self.lanes[lane]
        line = levels[ticket.level][ticket.model]
        line.drop(request)
        if not line.live:
            del levels[ticket.level][ticket.model]
            if not levels[ticket.level]:
                del levels[ticket.level]

    def _remember(self, request: Request) -> None:
        line = self.oldest.setdefault(request.ticket.model, deque())
        line.append((request.since, request))
        if len(line) > 1 and request.since < line[-2][0]:
            # Only what moves down from another lane comes out of turn.
            ordered = sorted(line, key=lambda entry: entry[0])
            line.clear()
            line.extend(ordered)
        if len(line) > 64 and len(line) > 2 * self.waiting[request.ticket.model, 2]:
            live = [entry for entry in line if _waits_since(*entry)]
            line.clear()
            line.extend(live)

    def fell(self, business: str, lane: int, served: float) -> None:
        """The business's counter in the lane has fallen: it may come before others now."""
        for models in self.lanes[lane].values():
            for line in models.values():
                line.relist(business, served)

    def unpark(self, business: str, tenant: Tenant) -> bool:
        """Let the business's requests be seen again; True if any had been hidden."""
        parked = [
            (lane, line)
            for lane, levels in enumerate(self.lanes)
            for models in levels.values()
            for line in models.values()
            if business in line.parked
        ]
        for lane, line in parked:
            line.unpark(business, tenant.served[lane])
        return bool(parked) or any(r.ticket.business == business for r in self.retries)

    def first(
        self,
        replica: Replica,
        lane: int,
        models: tuple[str, ...],
        by_level: bool,
        tenants: Mapping[str, Tenant],
    ) -> Request | None:
        """The lane's next request among ``models`` that the replica may take, or None.

        ``by_level`` serves a level before the next; otherwise the least served business and
        then the key decide.
        """
        best: Request | None = None
        best_rank: tuple[float, int, int, int] = (0.0, 0, 0, 0)
        least, most = replica.facts.levels
        levels = self.lanes[lane]
        for level in sorted(levels) if len(levels) > 1 else levels:
            if not least <= level <= most:
                continue
            lines = levels[level]
            for model in models:
                line = lines.get(model)
                found = line.peek(tenants) if line is not None else None
                if found is None:
                    continue
                (served, key, sequence), request = found
                turn = tenants[request.ticket.business].turns.get(model, 0)
                rank = (served, turn, key, sequence)
                if best is None or rank < best_rank:
                    best_rank, best = rank, request
            if by_level and best is not None:
                break
        if self.retries:
            return self._retry(replica, lane, models, by_level, tenants, best)
        return best

    def _retry(
        self,
        replica: Replica,
        lane: int,
        models: tuple[str, ...],
        by_level: bool,
        tenants: Mapping[str, Tenant],
        best: Request | None,
    ) -> Request | None:
        """A request that has failed once goes before its equals."""
        least, most = replica.facts.levels
        for request in self.retries:
            ticket = request.ticket
            if (
                request.lane == lane
                and ticket.model in models
                and least <= ticket.level <= most
                and not request.avoids(replica)
                and tenants[ticket.business].may_run
                and (best is None or not by_level or ticket.level <= best.ticket.level)
            ):
                return request
        return best

    def overdue(self, model: str, before: int) -> Request | None:
        """The model's longest waiting request of the lowest lane, if it waits since ``before``."""
        line = self.oldest.get(model)
        while line:
            since, head = line[0]
            if _waits_since(since, head):
                return head if since <= before else None
            line.popleft()
        self.oldest.pop(model, None)
        return None


def _waits_since(since: int, request: Request) -> bool:
    """Whether the request still waits as it did then; it may have run meanwhile."""
    return request.phase is Phase.QUEUED and request.lane == 2 and request.since == since
