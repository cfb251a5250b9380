"""Waiting requests: lane, then level and model, then business, then the request's key."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .line import Line, Rank
from .replica import Replica
from .request import Request
from .tenant import Tenant

# Later than any time.
NEVER = 1 << 63

Levels = dict[int, dict[str, Line]]


def no_levels() -> tuple[Levels, Levels, Levels]:
    """Three empty lanes."""
    return {}, {}, {}


@dataclass(slots=True)
class Queues:
    """All lines, and the few requests that must avoid a replica that failed them. A request
    stays in the lane it was queued in, whatever the policy becomes. ``waits`` has the lowest
    lane's requests by model and level in order of their wait, for the starvation guard;
    nobody there who may run has waited since before ``oldest`` (ns)."""

    lanes: tuple[Levels, Levels, Levels] = field(default_factory=no_levels)
    waiting: dict[tuple[str, int], int] = field(default_factory=dict)
    retries: list[Request] = field(default_factory=list)
    waits: dict[tuple[str, int], Line] = field(default_factory=dict)
    oldest: int = NEVER

    def push(self, request: Request, served: float) -> None:
        """Queue a request; one that failed somewhere goes among the retries."""
        ticket, lane = request.ticket, request.lane
        flow = (ticket.model, lane)
        self.waiting[flow] = self.waiting.get(flow, 0) + 1
        if lane == 2 and request.since < self.oldest:
            self.oldest = request.since
        if request.tried:
            self.retries.append(request)
            return
        if lane == 2:
            kind = (ticket.model, ticket.level)
            found = self.waits.get(kind)
            if found is None:
                found = self.waits[kind] = Line(None)
            found.push(request, 0.0)
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
        if lane == 2:
            found = self.waits[ticket.model, ticket.level]
            found.drop(request)
            if not found.live:
                del self.waits[ticket.model, ticket.level]
        levels = self.lanes[lane]
        line = levels[ticket.level][ticket.model]
        line.drop(request)
        if not line.live:
            del levels[ticket.level][ticket.model]
            if not levels[ticket.level]:
                del levels[ticket.level]

    def fell(self, business: str, lane: int, served: float) -> None:
        """The business's counter in the lane has fallen: it may come before others now."""
        for models in self.lanes[lane].values():
            for line in models.values():
                line.relist(business, served)

    def unpark(self, business: str, tenant: Tenant) -> None:
        """Let the business's requests be seen again."""
        for lane, levels in enumerate(self.lanes):
            for models in levels.values():
                for line in models.values():
                    if business in line.parked:
                        line.unpark(business, tenant.served[lane])
        for line in self.waits.values():
            if business in line.parked:
                line.unpark(business, 0.0)
                # What it hid may be older than what is seen.
                self.oldest = 0

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
        found: list[tuple[Rank, Request]] = []
        least, most = replica.facts.levels
        levels = self.lanes[lane]
        for level in sorted(levels) if by_level and len(levels) > 1 else levels:
            if not least <= level <= most:
                continue
            lines = levels[level]
            for model in models:
                line = lines.get(model)
                head = line.peek(tenants) if line is not None else None
                if head is not None:
                    found.append(head)
            if by_level and found:
                break
        if len(found) == 1:
            best: Request | None = found[0][1]
        elif not found:
            best = None
        else:
            # Of one model there is nothing to take turns with.
            best = min(found)[1] if len(models) == 1 else _in_turn(found)
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

    def overdue(
        self, replica: Replica, before: int, tenants: Mapping[str, Tenant]
    ) -> Request | None:
        """Of the lowest lane's requests that the replica may take the one that waits longest,
        if it waits since ``before`` (ns) or longer."""
        if before < self.oldest:
            return None
        oldest = NEVER
        best: tuple[Rank, Request] | None = None
        for head in self._longest(tenants):
            request = head[1]
            oldest = min(oldest, request.since)
            if (
                request.since <= before
                and (best is None or head[0] < best[0])
                and replica.takes(request.ticket.model, 2, request.ticket.level)
                and not request.avoids(replica)
            ):
                best = head
        self.oldest = oldest
        return best[1] if best is not None else None

    def next_overdue(self, after: int, tenants: Mapping[str, Tenant]) -> int:
        """The first moment (ns) later than ``after`` since when a request waits that comes
        first of its kind; 0 if there is none."""
        found = [head[1].since for head in self._longest(tenants) if head[1].since > after]
        return min(found, default=0)

    def _longest(self, tenants: Mapping[str, Tenant]) -> list[tuple[Rank, Request]]:
        """Of each kind the request of the lowest lane that may run and waits longest."""
        heads = [head for line in self.waits.values() if (head := line.peek(tenants)) is not None]
        heads += [
            ((0.0, request.since, request.sequence), request)
            for request in self.retries
            if request.lane == 2 and tenants[request.ticket.business].may_run
        ]
        return heads


def _in_turn(found: list[tuple[Rank, Request]]) -> Request:
    """Of the heads of several lines the least served business's, whose models take turns."""
    best = min(found)[1]
    mine = [head for head in found if head[1].tenant is best.tenant]
    if len(mine) > 1:
        turns = best.tenant.turns
        best = min(mine, key=lambda head: (turns.get(head[1].ticket.model, 0), head[0]))[1]
    return best
