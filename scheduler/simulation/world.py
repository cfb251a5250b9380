"""One virtual clock, the cards of a scenario, and its requests meeting one scheduler."""

from array import array
from collections.abc import Callable
from heapq import heappop, heappush

from scheduler.core.decisions import Scale
from scheduler.core.fleet import CardFacts
from scheduler.scaling.cards import CardState

from .cluster import Card
from .decoding import NEVER
from .quotas import buckets
from .rack import Rack
from .records import Records
from .scenario import SECOND
from .scheduling import Cluster, Outcome, Scheduler
from .workload import Workload

# From being told to stop until the slot is free.
STOP_NS = 5_000_000
# From a connection that is refused until that is known.
REFUSED_NS = 1_000_000
# A run ends so long after its last arrival, whatever still waits.
DRAIN_S = 600
MEASURE_NS = 3 * SECOND
# A health probe finds out so long after a replica has gone or come.
PROBE_NS = SECOND

# What is on the heap, as (time, kind, a, b). Of one time, ends come first.
FINISH, CARD, STOP, LOST, PROGRESS, SAMPLE, FAULT, PROBE, LOAD, TELL, WAKE, MEASURE = range(12)


class World:
    """Runs a workload through a scheduler; see ``Cluster`` for what that may do."""

    def __init__(self, workload: Workload, make: Callable[[Cluster], Scheduler]) -> None:
        self.workload = workload
        self.now = 0
        self.records = Records(len(workload))
        self.cards = [Card(spec, workload) for spec in workload.scenario.cards()]
        self.attempt = array("H", bytes(2 * len(workload)))
        self.where = array("h", [-1]) * len(workload)
        self._began = array("q", bytes(8 * len(workload)))
        # Of requests that were stopped: when they were queued again, and the output tokens
        # they have and the context tokens computed for them.
        self._queued: dict[int, int] = {}
        # Of running generative requests: what they found of their prompts.
        self._found: dict[int, int] = {}
        self._tokens: dict[int, tuple[int, int]] = {}
        self._open = 0
        self._wake = 0
        self._heap: list[tuple[int, int, int, int]] = []
        self._buckets = buckets(workload.scenario)
        self._rack = Rack(
            self.cards,
            workload,
            self.records,
            clock=lambda: self.now,
            load=lambda at, place, version: heappush(self._heap, (at, LOAD, place, version)),
            # Not at once: the scheduler may be in the middle of carrying out decisions.
            tell=lambda place: heappush(self._heap, (self.now, TELL, place, 0)),
        )
        self.scheduler = make(self)

    def run(self, progress: Callable[[float], None] = lambda _: None) -> Records:
        """Run to the end. ``progress`` is told the share of arrivals that have come."""
        heap = self._heap
        self._prepare()
        least = round(self.workload.scenario.duration_s * SECOND)
        limit = least + DRAIN_S * SECOND
        handlers = (
            self._finish,
            self._card,
            self._stopped,
            self._lost,
            self._progress,
            self._sample,
            self._fault,
            self._probe,
            self._rack.loaded,
            self._tell,
            self._woken,
            self._measure,
        )
        arrived, count = self.workload.arrived, len(self.workload)
        index, following = 0, arrived[0] if count else NEVER
        while True:
            at, kind, a, b = heap[0]
            if following < at:
                self.now = following
                self._arrive(index)
                index += 1
                following = arrived[index] if index < count else NEVER
                continue
            heappop(heap)
            self.now = min(at, limit)
            if at > limit:
                break
            handlers[kind](a, b)
            if kind == SAMPLE:
                progress(index / count if count else 1.0)
                if self.now >= least and following == NEVER and not self._open:
                    break
        self.scheduler.closed()
        return self.records

    def _prepare(self) -> None:
        scenario, heap = self.workload.scenario, self._heap
        names = [spec.name for spec in scenario.replicas]
        for fault in scenario.faults:
            replica = names.index(fault.replica)
            heappush(heap, (round(fault.down_at_s * SECOND), FAULT, replica, 0))
            if fault.up_at_s < scenario.duration_s + DRAIN_S:
                heappush(heap, (round(fault.up_at_s * SECOND), FAULT, replica, 1))
        heappush(heap, (SECOND, SAMPLE, 0, 0))
        heappush(heap, (MEASURE_NS, MEASURE, 0, 0))

    def holds(self, replica: int) -> list[int]:
        """See Cluster."""
        return self.cards[replica].models

    def slots(self, replica: int) -> int:
        """See Cluster."""
        return self.cards[replica].slots

    def running(self, replica: int) -> set[int]:
        """See Cluster."""
        return self.cards[replica].running

    def up(self, replica: int) -> bool:
        """See Cluster."""
        return self.cards[replica].up

    def state(self, replica: int) -> CardState:
        """See Cluster."""
        return self.cards[replica].state

    def generation(self, replica: int) -> int:
        """See Cluster."""
        return self.cards[replica].generation

    def idle_cards(self) -> tuple[CardFacts, ...]:
        """See Cluster."""
        return self._rack.told()

    def steer(self, order: Scale) -> None:
        """See Cluster."""
        self._rack.order(order)

    def room(self, replica: int, request: int) -> bool:
        """See Cluster."""
        card = self.cards[replica]
        if not card.up or len(card.running) >= card.slots:
            return False
        if card.decoder is None or card.service[self.workload.model[request]]:
            return True
        prompt = self.workload.prompt[request]
        need = prompt + self.workload.output[request]
        return card.decoder.memory.fits(need, prompt, self.workload.blocks(request, prompt))

    def silent(self, request: int) -> bool:
        """See Cluster."""
        decoder = self.cards[self.where[request]].decoder
        job = decoder.jobs.get(request) if decoder is not None else None
        return job is None or not (job.decoding or request in self._tokens)

    def start(self, request: int, replica: int) -> None:
        """See Cluster."""
        now, card, workload = self.now, self.cards[replica], self.workload
        attempt = self.attempt[request] + 1
        self.attempt[request] = attempt
        queued = workload.arrived[request] if attempt == 1 else self._queued.pop(request)
        self.records.waited[request] += now - queued
        if not card.up:
            heappush(self._heap, (now + REFUSED_NS, LOST, request, attempt))
            self.where[request] = replica
            return
        running = card.running
        card.area += len(running) * (now - card.touched)
        card.touched = now
        running.add(request)
        self.where[request] = replica
        self._began[request] = now
        service = card.service[workload.model[request]]
        if service:
            end = now + int(service * workload.factor[request])
            heappush(self._heap, (end, FINISH, request, attempt))
        if card.decoder is not None:
            card.decoder.advance(now)
            if not service:
                produced, computed = self._tokens.get(request, (0, 0))
                context = workload.prompt[request] + produced
                left = workload.output[request] - produced
                blocks = workload.blocks(request, context + left)
                card.decoder.start(request, context, computed, left, blocks)
            self._retime(replica, card)

    def stop(self, request: int) -> None:
        """See Cluster."""
        self.records.preempted.append(self.now)
        heappush(self._heap, (self.now + STOP_NS, STOP, request, self.attempt[request]))

    def refuse(self, request: int, outcome: Outcome, at: int | None = None) -> None:
        """See Cluster."""
        bucket = self._buckets[self.workload.business[request]]
        if bucket is not None and outcome is not Outcome.FAILED:
            bucket.give_back(1)
        queued = self.workload.arrived[request]
        if self.attempt[request]:
            queued = self._queued.pop(request, self.now)
        ended = self.now if at is None else at
        self.records.waited[request] += max(0, ended - queued)
        self._end(request, outcome)
        self.records.ended[request] = ended

    def cached(self, request: int) -> int | None:
        """See Cluster."""
        return self._found.get(request)

    def foretold(self, request: int, service: int, known: int, latency: int) -> None:
        """See Cluster."""
        if self.attempt[request] == 1:
            noted = self.records.foretold[self.workload.lane[request]]
            true, whole = self.now - self._began[request], self.now - self.workload.arrived[request]
            noted.note(service - true, known - true, latency - whole, true, whole)

    def wake_at(self, at: int) -> None:
        """See Cluster."""
        self._wake += 1
        heappush(self._heap, (max(at, self.now), WAKE, self._wake, 0))

    def _arrive(self, request: int) -> None:
        self._open += 1
        bucket = self._buckets[self.workload.business[request]]
        if bucket is not None and bucket.take(1, self.now):
            self._end(request, Outcome.QUOTA)
        else:
            self.scheduler.arrived(request)

    def _end(self, request: int, outcome: Outcome) -> None:
        self._open -= 1
        self.records.outcome[request] = outcome
        self.records.ended[request] = self.now

    def _runs(self, request: int, attempt: int) -> bool:
        return self.attempt[request] == attempt and self.where[request] >= 0

    def _leave(self, request: int) -> int:
        """Take a request off its card's count; the card."""
        replica = self.where[request]
        card, now = self.cards[replica], self.now
        card.area += len(card.running) * (now - card.touched)
        card.touched = now
        card.running.discard(request)
        self.where[request] = -1
        return replica

    def _retime(self, replica: int, card: Card) -> None:
        assert card.decoder is not None
        card.version += 1
        at = card.decoder.retime(len(card.running))
        if at != NEVER:
            heappush(self._heap, (max(at, self.now), CARD, replica, card.version))

    def _finish(self, request: int, attempt: int) -> None:
        """A request of a fixed model has run its time."""
        if self.attempt[request] != attempt or self.where[request] < 0:
            return
        replica = self._leave(request)
        card = self.cards[replica]
        if card.decoder is not None:
            card.decoder.advance(self.now)
            self._retime(replica, card)
        self._end(request, Outcome.DONE)
        self.scheduler.finished(request, replica)

    def _card(self, replica: int, version: int) -> None:
        """A card's generative side has come to a mark."""
        card = self.cards[replica]
        if card.version != version or card.decoder is None:
            return
        card.decoder.advance(self.now)
        answering, ended = card.decoder.due()
        for request, found, _ in answering:
            self._note_found(request, found)
        for request in ended:
            self._leave(request)
            self._tokens.pop(request, None)
            self._end(request, Outcome.DONE)
        self._retime(replica, card)
        for request, _, wasted in answering:
            if wasted:
                self.records.wasted.append((self.now, wasted))
            heappush(self._heap, (self.now, PROGRESS, request, self.attempt[request]))
        for request in ended:
            self.scheduler.finished(request, replica)
            del self._found[request]

    def _note_found(self, request: int, found: int) -> None:
        """Of what it finds when it goes on after a pause most is its own: its first run counts."""
        found = self._found[request] = min(found, self.workload.prompt[request])
        if request not in self._tokens:
            self.records.cached[request] = found

    def _stopped(self, request: int, attempt: int) -> None:
        if not self._runs(request, attempt):
            return
        replica = self._take_off(request)
        produced = self._tokens[request][0] if request in self._tokens else 0
        self._queued[request] = self.now
        self.scheduler.stopped(request, replica, produced)

    def _take_off(self, request: int) -> int:
        """Take a request off its card before its end. A generative one keeps its tokens,
        which its caller has seen; a fixed one has run for nothing."""
        replica = self._leave(request)
        card = self.cards[replica]
        if card.decoder is not None:
            card.decoder.advance(self.now)
            if request in card.decoder.jobs:
                job = card.decoder.jobs[request]
                if job.began and not job.decoding:
                    self._note_found(request, job.found)
                self._found.pop(request, None)
                before, computed = self._tokens.get(request, (0, 0))
                produced, now_computed = card.decoder.stop(request)
                self._tokens[request] = before + produced, max(computed, now_computed)
            self._retime(replica, card)
        if request not in self._tokens:
            self.records.wasted.append((self.now, self.now - self._began[request]))
        return replica

    def _lost(self, request: int, attempt: int) -> None:
        """A request was sent to a card that is not there."""
        if self._runs(request, attempt):
            replica = self.where[request]
            self.where[request] = -1
            self._queued[request] = self.now
            self.scheduler.lost(request, replica)

    def _progress(self, request: int, attempt: int) -> None:
        if not self._runs(request, attempt):
            return
        decoder = self.cards[self.where[request]].decoder
        if decoder is not None and request in decoder.jobs:
            decoder.advance(self.now)
            before = self._tokens[request][0] if request in self._tokens else 0
            self.scheduler.progressed(request, before + max(1, decoder.produced(request)))
            heappush(self._heap, (self.now + SECOND, PROGRESS, request, attempt))

    def _fault(self, replica: int, up: int) -> None:
        card = self.cards[replica]
        heappush(self._heap, (self.now + PROBE_NS, PROBE, replica, up))
        if up:
            self._rack.mended(replica)
            return
        lost = sorted(card.running)
        for request in lost:
            self._take_off(request)
            self._queued[request] = self.now
        card.version += 1
        if card.decoder is not None:
            card.decoder.clear()
        self._rack.broke(replica)
        for request in lost:
            self.scheduler.lost(request, replica)

    def _probe(self, replica: int, up: int) -> None:
        if self.cards[replica].up == up:
            self.scheduler.changed(replica)

    def _tell(self, replica: int, _: int) -> None:
        self.scheduler.changed(replica)

    def _woken(self, version: int, _: int) -> None:
        if version == self._wake:
            self.scheduler.woken()

    def _measure(self, _: int, __: int) -> None:
        readings = [card.reading(self.now, MEASURE_NS) for card in self.cards]
        self.scheduler.measured(readings)
        heappush(self._heap, (self.now + MEASURE_NS, MEASURE, 0, 0))

    def _sample(self, _: int, __: int) -> None:
        records, now = self.records, self.now
        self._rack.look()
        records.busy.append(sum(card.busy(now) for card in self.cards))
        ready = sum(card.slots for card in self.cards if card.up)
        records.ready.append(records.ready[-1] + ready * SECOND)
        heappush(self._heap, (now + SECOND, SAMPLE, 0, 0))
