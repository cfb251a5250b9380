"""Waiting requests: lane, then level and model, then business, then the request's key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush

from .conduct import note_missed
from .line import Line, Rank
from .replica import Replica
from .request import Request
from .tenant import Tenant

# Later than any time.
NEVER = 1 << 63

Levels = dict[int, dict[str, Line]]
# Lane, level and model of requests, and the replica generations that failed them.
Retry = tuple[int, int, str, frozenset[tuple[str, int]]]


@dataclass(slots=True)
class Aside:
    """A waiting request for which room is made on a ``replica`` (name; "": nowhere yet): it has a
    claim on what comes free there, given up at ``until`` (ns), or the replica is kept for it (0).
    Only lanes and levels more urgent than ``bar`` pass it there."""

    request: Request
    replica: str
    until: int
    bar: tuple[int, int]


def no_levels() -> tuple[Levels, Levels, Levels]:
    """Three empty lanes."""
    return {}, {}, {}


@dataclass(slots=True)
class Queues:
    """All lines. A request stays in the lane it was queued in, whatever the policy becomes. Those
    that are too late for their budgets (``missed``) come behind all others of their lane, those
    that must avoid a replica which failed them (``retries``) before their equals. ``waits`` has the
    lowest lane's requests by model and level in order of their arrival, for the starvation guard;
    nobody there who may run has come before ``oldest`` (ns). ``delayed`` has by replica and id
    those that wait for it alone, and ``delays`` when that ends for them (ns). Of the flows in
    ``moved`` one has left its line: the next may pass a gate that it could not."""

    lanes: tuple[Levels, Levels, Levels] = field(default_factory=no_levels)
    missed: tuple[Levels, Levels, Levels] = field(default_factory=no_levels)
    retries: dict[Retry, Line] = field(default_factory=dict)
    waiting: dict[tuple[str, int], int] = field(default_factory=dict)
    waits: dict[tuple[str, int], Line] = field(default_factory=dict)
    aside: dict[str, Aside] = field(default_factory=dict)
    vacated: list[str] = field(default_factory=list)
    oldest: int = NEVER
    delayed: dict[str, dict[str, Request]] = field(default_factory=dict)
    delays: list[tuple[int, int, Request]] = field(default_factory=list)
    moved: set[tuple[str, int]] = field(default_factory=set)

    def push(self, request: Request) -> None:
        """Queue a request; one that failed somewhere goes among the retries."""
        ticket, lane = request.ticket, request.lane
        flow = (ticket.model, lane)
        self.waiting[flow] = self.waiting.get(flow, 0) + 1
        if lane == 2:
            self.oldest = min(self.oldest, ticket.arrived)
            kind = (ticket.model, ticket.level)
            found = self.waits.get(kind)
            if found is None:
                found = self.waits[kind] = Line(None)
            found.push(request, 0.0)
        self._push(request)

    def _push(self, request: Request) -> None:
        ticket, ledger = request.ticket, request.ledger
        served = request.tenant.served.get(ledger, 0.0)
        if request.tried:
            key = (request.lane, ticket.level, ticket.model, request.tried)
            line = self.retries.get(key)
            if line is None:
                line = self.retries[key] = Line(ledger)
            line.push(request, served)
            return
        levels = (self.missed if request.missed else self.lanes)[request.lane]
        models = levels.get(ticket.level)
        if models is None:
            models = levels[ticket.level] = {}
        line = models.get(ticket.model)
        if line is None:
            line = models[ticket.model] = Line(ledger)
        line.push(request, served)

    def drop(self, request: Request) -> None:
        """Take out a request that waits no longer; its phase says so already."""
        ticket, lane = request.ticket, request.lane
        flow = (ticket.model, lane)
        self.waiting[flow] -= 1
        if not self.waiting[flow]:
            del self.waiting[flow]
        else:
            self.moved.add(flow)
        if lane == 2:
            found = self.waits[ticket.model, ticket.level]
            request.turn += 1
            found.drop(request)
            if not found.live:
                del self.waits[ticket.model, ticket.level]
        aside = self.aside.pop(ticket.id, None)
        if aside is not None:
            if aside.replica and not aside.until:
                self.vacated.append(aside.replica)
        elif request.holder:
            self._undelay(request)
        else:
            self._drop(request)

    def set_aside(self, request: Request, found: Aside) -> None:
        """Take a waiting request out of its line, for room is made for it."""
        if request.holder:
            self._undelay(request)
        elif request.ticket.id not in self.aside:
            self._drop(request)
        self.aside[request.ticket.id] = found

    def put_back(self, request: Request) -> None:
        """It waits in its line again."""
        del self.aside[request.ticket.id]
        self._push(request)

    def delay(self, request: Request, holder: str, until: int) -> None:
        """Take a waiting request out of its line: until then (ns) it waits for this replica."""
        self._drop(request)
        self.moved.add((request.ticket.model, request.lane))
        request.holder, request.delayed = holder, until
        self.delayed.setdefault(holder, {})[request.ticket.id] = request
        heappush(self.delays, (until, request.sequence, request))

    def end_delay(self, request: Request) -> None:
        """It waits in its line again."""
        self._undelay(request)
        self._push(request)

    def next_delay(self) -> int:
        """When the next request has waited long enough for one replica alone (ns); 0: none does."""
        delays = self.delays
        while delays and not delays[0][2].holder:
            heappop(delays)
        return delays[0][0] if delays else 0

    def overdue_delays(self, now: int) -> list[Request]:
        """Those that have waited long enough for one replica alone."""
        found = []
        while self.delays and self.delays[0][0] <= now:
            request = heappop(self.delays)[2]
            if request.holder:
                found.append(request)
        return found

    def _undelay(self, request: Request) -> None:
        waiting = self.delayed[request.holder]
        del waiting[request.ticket.id]
        if not waiting:
            del self.delayed[request.holder]
        request.holder = ""

    def _drop(self, request: Request) -> None:
        ticket, lane = request.ticket, request.lane
        # It may stand in the middle: what is left of it there is nobody.
        request.place += 1
        if request.tried:
            key = (lane, ticket.level, ticket.model, request.tried)
            line = self.retries[key]
            line.drop(request)
            if not line.live:
                del self.retries[key]
            return
        levels = (self.missed if request.missed else self.lanes)[lane]
        line = levels[ticket.level][ticket.model]
        line.drop(request)
        if not line.live:
            del levels[ticket.level][ticket.model]
            if not levels[ticket.level]:
                del levels[ticket.level]

    def foremost(self, flow: tuple[str, int], tenants: Mapping[str, Tenant]) -> Request | None:
        """The request of a model and lane that comes first in its lines."""
        model, lane = flow
        for table in (self.lanes, self.missed):
            for _, models in sorted(table[lane].items()):
                head = models[model].peek(tenants) if model in models else None
                if head is not None:
                    return head[1]
        return None

    def lines(self, lane: int) -> Iterator[tuple[int, str, Line]]:
        """All lines of a lane, with level and model."""
        for table in (self.lanes, self.missed):
            for level, models in table[lane].items():
                for model, line in models.items():
                    yield level, model, line
        for (of, level, model, _), line in self.retries.items():
            if of == lane:
                yield level, model, line

    def fell(self, business: str, ledger: int, served: float) -> None:
        """The business's counter in the ledger has fallen: it may come before others now."""
        lane = ledger % 3
        for models in (*self.lanes[lane].values(), *self.missed[lane].values()):
            for line in models.values():
                if business in line.listed and line.ledger == ledger:
                    line.relist(business, served)
        for line in self.retries.values():
            if business in line.listed and line.ledger == ledger:
                line.relist(business, served)

    def unpark(self, business: str, tenant: Tenant) -> None:
        """Let the business's requests be seen again."""
        for lane in range(3):
            for _, _, line in self.lines(lane):
                if business in line.parked:
                    line.unpark(business, tenant.served.get(line.ledger or 0, 0.0))
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
        now: int,
        tenants: Mapping[str, Tenant],
        *,
        by_level: bool,
    ) -> Request | None:
        """The lane's next request among ``models`` that the replica may take, or None.

        ``by_level`` serves a level before the next; otherwise the least served business and
        then the key decide. Who could still be in time at ``now`` (ns) goes first.
        """
        best = self._foremost(replica, lane, models, now, tenants, by_level=by_level)
        if self.retries:
            return self._retry(replica, lane, models, tenants, best, by_level=by_level)
        return best

    def _foremost(
        self,
        replica: Replica,
        lane: int,
        models: tuple[str, ...],
        now: int,
        tenants: Mapping[str, Tenant],
        *,
        by_level: bool,
    ) -> Request | None:
        least, most = replica.facts.levels
        for table in (self.lanes, self.missed):
            levels = table[lane]
            found: list[tuple[Rank, Request]] = []
            for level in sorted(levels) if len(levels) > 1 else list(levels):
                if not least <= level <= most:
                    continue
                lines = levels[level]
                for model in models:
                    head = lines[model].peek(tenants) if model in lines else None
                    if head is not None and head[1].latest < now and not head[1].missed:
                        head = self._head(levels, level, model, now, tenants)
                    if head is not None:
                        found.append(head)
                if by_level and found:
                    break
            if len(found) == 1:
                return found[0][1]
            if found:
                # Of one model there is nothing to take turns with.
                return min(found)[1] if len(models) == 1 else _in_turn(found)
        return None

    def _head(
        self, levels: Levels, level: int, model: str, now: int, tenants: Mapping[str, Tenant]
    ) -> tuple[Rank, Request] | None:
        """The first of a line; what is found to be too late meanwhile goes behind all others."""
        while True:
            lines = levels.get(level)
            line = lines.get(model) if lines is not None else None
            head = line.peek(tenants) if line is not None else None
            if head is None or head[1].latest >= now or head[1].missed:
                return head
            request = head[1]
            self._drop(request)
            note_missed(request)
            self._push(request)

    def _retry(
        self,
        replica: Replica,
        lane: int,
        models: tuple[str, ...],
        tenants: Mapping[str, Tenant],
        best: Request | None,
        *,
        by_level: bool,
    ) -> Request | None:
        """A request that has failed once goes before its equals."""
        least, most = replica.facts.levels
        here = (replica.facts.name, replica.generation)
        found: list[tuple[int, Rank, Request]] = []
        for (of, level, model, tried), line in self.retries.items():
            if of != lane or model not in models or here in tried or not least <= level <= most:
                continue
            head = line.peek(tenants)
            if head is not None:
                found.append((level if by_level else 0, *head))
        if not found:
            return best
        level, _, request = min(found, key=lambda item: item[:2])
        if best is not None and not best.missed and by_level and level > best.ticket.level:
            return best
        return request

    def overdue(
        self, replica: Replica, before: int, tenants: Mapping[str, Tenant]
    ) -> Iterator[Request]:
        """The lowest lane's requests that the replica may take and that have come before (ns), the
        longest wait first: one of each model and level."""
        if before < self.oldest:
            return
        oldest = NEVER
        found: list[tuple[Rank, Request]] = []
        for head in self._longest(tenants):
            request = head[1]
            oldest = min(oldest, request.ticket.arrived)
            if (
                request.ticket.arrived <= before
                and replica.takes(request.ticket.model, 2, request.ticket.level)
                and not request.avoids(replica)
            ):
                found.append(head)
        self.oldest = oldest
        for _, request in sorted(found, key=lambda head: head[0]):
            yield request

    def next_overdue(self, after: int, tenants: Mapping[str, Tenant]) -> int:
        """The first arrival (ns) later than ``after`` of a request that comes first of its kind; 0
        if there is none."""
        found = [head[1].ticket.arrived for head in self._longest(tenants)]
        return min((at for at in found if at > after), default=0)

    def _longest(self, tenants: Mapping[str, Tenant]) -> list[tuple[Rank, Request]]:
        """Of each kind the request of the lowest lane that may run and waits longest."""
        return [head for line in self.waits.values() if (head := line.peek(tenants)) is not None]


def _in_turn(found: list[tuple[Rank, Request]]) -> Request:
    """Of the heads of several lines the least served business's, whose models take turns."""
    best = min(found)[1]
    mine = [head for head in found if head[1].tenant is best.tenant]
    if len(mine) > 1:
        turns, now = best.tenant.turns, best.tenant.turn
        best = min(mine, key=lambda h: (max(now, turns.get(h[1].ticket.model, 0.0)), h[0]))[1]
    return best
