"""One request from the caller's first byte to its usage row."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from metering.core.usage import UsageRow
from scheduler.calls import Call, Placed, Refusal
from scheduler.core.ticket import Ticket
from scheduler.decision_log import Why

from .admission import admit, resume_of, story_of
from .asgi_types import Receive, Send
from .callers import Caller
from .errors import GatewayError
from .incoming import Booking, Incoming, check_body, read_body
from .payload import Payload, parse
from .ratelimit import Reservation
from .relay import Attempt, StreamBrokenError, broken_error
from .reply import Reply
from .seating import Seating
from .story import Story
from .upstream import AttemptFailedError
from .usage import Usage

if TYPE_CHECKING:
    from .app import Gateway

log = logging.getLogger(__name__)

GONE = "client_disconnect"  # it left, or reads nothing of what it asked for


class Exchange:
    """One authenticated inference request. ``run`` ends with exactly one usage row."""

    def __init__(
        self,
        gateway: "Gateway",
        incoming: Incoming,
        caller: Caller,
        operation: str,
        row: UsageRow,
        receive: Receive,
        send: Send,
    ) -> None:
        self.gateway = gateway
        self.incoming = incoming
        self.caller = caller
        self.operation = operation
        self.row = row
        self.ruling = gateway.rules.of(caller.business.name)
        self.reply = Reply(send, self._headers)
        self.call: Call | None = None
        self.attempt: Attempt | None = None
        self.payload: Payload | None = None
        self.unread = True
        self.began = asyncio.get_running_loop().time()
        self._receive = receive
        self._usage = Usage()
        self._content = False
        self._interrupt: str | None = None
        self._yielding = False
        self._paused = False
        self._again = False
        self.story: Story | None = None
        self._seating = Seating(gateway.slots, row.id)
        self._task: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._booking = Booking(gateway.bodies)
        self._rates = Reservation(gateway, row)

    @property
    def waits(self) -> bool:
        """Whether a stream's caller has seen no content yet, or none since a pause."""
        streams = self.payload is not None and self.payload.stream
        return streams and (self._paused or not self._content)

    async def run(self) -> None:
        """Serve the request; whatever happens, free what it held and write its row."""
        self._task = asyncio.current_task()
        try:
            error = await self._attend()
            if error is not None:
                await self._fail(error)
        except asyncio.CancelledError:
            await self._interrupted()
        finally:
            self._task = None
            if self._watcher is not None:
                self._watcher.cancel()
            self._booking.release()
            self._seating.leave()
            self._seating.drop()
            self._account()
            self._unlink()

    def interrupt(self, reason: str) -> None:
        """End the request from outside: the caller left, time is up, or the gateway stops.
        A caller that leaves ends the telling of another reason too."""
        first = self._interrupt is None
        if self._task is not None and (first or (reason == GONE != self._interrupt)):
            self._interrupt = reason
            self._task.cancel()

    async def _attend(self) -> GatewayError | None:
        """Serve the request; returns what the caller has to be told instead of an answer."""
        try:
            payload = await self._accept()
            if payload is None:
                self._interrupt = GONE
                raise asyncio.CancelledError
            await self._serve(payload)
        except StreamBrokenError as broken:
            return broken_error(str(broken))
        except GatewayError as error:
            return error
        except Exception:  # a fault of ours: the caller gets an answer all the same
            log.exception("request %s failed inside the gateway", self.row.id)
            return GatewayError("internal_error")
        return None

    def watch(self) -> None:
        """Look out for the caller's hang-up from now on. Not from the start: most requests
        would be over before a task for it had paid."""
        if self._watcher is None and self._task is not None and self.payload is not None:
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.interrupt(GONE)

    async def _interrupted(self) -> None:
        row, reason = self.row, self._interrupt
        if reason is None:
            raise asyncio.CancelledError
        if self._task is not None:
            self._task.uncancel()
        if reason != GONE:
            with contextlib.suppress(asyncio.CancelledError):
                await self._fail(GatewayError(reason, retry_after=1.0))
            return
        row.http_status = self.reply.status
        if self.attempt is not None and self.attempt.complete:
            # Some clients close at the last word, before the stream's own end.
            row.status = "ok"
        elif not row.reason:
            row.status = GONE

    async def _accept(self) -> Payload | None:
        """Read and check the body; None where the caller left before it was whole."""
        if self.gateway.stopping:
            raise GatewayError("shutting_down", retry_after=1.0)
        check_body(self.incoming, self.gateway.bodies)
        body = await read_body(self._receive, self._booking, self.incoming.length)
        self.unread = False
        if body is None:
            return None
        self.row.bytes_in = len(body)
        payload = parse(body, self.operation)
        self.payload = payload
        self.row.requested_model = payload.model
        self.row.stream = payload.stream
        return payload

    async def _serve(self, payload: Payload) -> None:
        ruling = self.ruling
        found = admit(self.gateway, ruling, self.incoming, self.caller, payload, self.row)
        self.story = story_of(payload, self.operation, found.lane)
        generative = self.operation != "embeddings"
        await self._rates.take(self.caller, payload, generative=generative)
        ticket = Ticket(
            id=self.row.id,
            business=self.caller.business.name,
            model=payload.model,
            lane=found.lane,
            level=found.level,
            arrived=self.row.received,
            prompt=payload.prompt_tokens if generative else 0,
            output=payload.output_tokens * payload.choices,
            resume=resume_of(self.story),
            order=ruling.order,
            patience=ruling.patience(found.lane),
        )
        why = Why(found, self.row.claimed, ruling.version)
        call = self.call = self.gateway.scheduler.open(ticket, why)
        call.on_preempt = self._yield
        outcome = await call.placed()
        while isinstance(outcome, Placed):
            if self._yielding:
                # Wanted back before it was used.
                self._yielding = False
                outcome = await call.yielded(self._pause())
                continue
            try:
                await self._try(outcome, payload, found.level)
                return
            except asyncio.CancelledError:
                if not self._stopped():
                    raise
                saved = await self._save()
                self._seating.leave()
                outcome = await call.yielded(self._pause(), saved=saved)
            except AttemptFailedError as failure:
                self._seating.leave()
                log.warning(
                    "attempt %d of %s failed: %s", outcome.attempt, self.row.id, failure.detail
                )
                outcome = await call.failed(failure.fault, self._pause())
                if isinstance(outcome, Refusal) and outcome.reason == "upstream_error":
                    told = GatewayError(failure.reason)
                    raise (broken_error(failure.detail) if self._content else told) from failure
        self._rates.settle(self.row)
        raise GatewayError(outcome.reason, retry_after=outcome.retry_after)

    async def _try(self, placed: Placed, payload: Payload, level: int) -> None:
        """One attempt on one replica."""
        row, facts = self.row, placed.facts
        row.attempts = placed.attempt
        row.dispatched = row.dispatched or placed.at
        row.queue_wait_ms = placed.waited / 1e6
        row.replica = facts.name
        # What an attempt that failed reported is nobody's debt: each begins from nothing.
        attempt = Attempt(placed, payload, self.operation, Usage(), self.reply, self.story)
        attempt.on_content, attempt.on_token = self._content_out, self._goes_on
        attempt.touched = asyncio.get_running_loop().time()
        row.served_model = attempt.served
        self.attempt = attempt
        self._usage = attempt.usage
        attempt.idle = True
        attempt.slot = await self._seating.sit(placed, attempt.adapter, payload)
        operation, body = attempt.call(level)
        response = await self.gateway.upstream.post(
            facts,
            attempt.adapter,
            operation,
            body,
            attempt_id=f"{row.id}-{placed.attempt}",
            trace=self.incoming.trace,
            limits=self.ruling.policy.failover,
        )
        attempt.idle = False
        try:
            row.http_status, row.reason = await attempt.carry(response)
            row.status = "ok" if row.http_status == 200 else "client_error"
        finally:
            await self.gateway.upstream.leave(response)

    def _yield(self) -> None:
        """The slot is wanted: stop, if the answer can go on later or the caller has seen
        nothing of it. The relay is cut only while it waits for the replica, never while it
        hands something on: so what was counted as sent was sent."""
        call, attempt = self.call, self.attempt
        if call is None or call.replica is None or self._interrupt is not None:
            return
        story = self.story
        if self._content and (story is None or not story.can_go_on):
            return
        if story is not None and story.said_all:
            return  # it is over sooner than it could be stopped
        self._yielding = True
        if attempt is not None and attempt.placed.attempt == call.attempt:
            if attempt.idle and self._task is not None:
                self._task.cancel()
            else:
                attempt.asked = True

    def _stopped(self) -> bool:
        """Whether a cancellation was ``_yield``'s: then it is over, and the request goes on."""
        if not self._yielding or self._interrupt is not None or self._task is None:
            return False
        self._yielding = False
        if self._task.cancelling():
            self._task.uncancel()
        return True

    def _note_work(self) -> None:
        """The attempt is over: count what it did a second time, once."""
        attempt = self.attempt
        if attempt is None or attempt.noted:
            return
        attempt.noted = True
        if self._again:
            self.row.recomputed_tokens += attempt.recomputed()
        self._again |= attempt.sent or attempt.tokens > 0

    async def _save(self) -> bool:
        """Whether what the attempt has computed is kept, by the engine or in a snapshot. The
        slot is not free before: whoever gets it would overwrite what is to be saved."""
        attempt, story = self.attempt, self.story
        if attempt is None or story is None:
            return False
        if attempt.adapter.saves_slots:
            return await self._seating.save(attempt.payload.prompt_tokens + story.transcript.tokens)
        return attempt.adapter.keeps_prefix and attempt.answering

    def _pause(self) -> int:
        """The attempt is over, the request is not: output tokens that the next one goes on from."""
        self._paused = True
        self._note_work()
        if self.story is None:
            return 0
        transcript = self.story.transcript
        transcript.pause()
        self.story.base = transcript.tokens
        return transcript.tokens

    def _content_out(self) -> None:
        self._paused = False
        if not self._content:
            self._content = True
            self.row.first_byte = self.gateway.clock.now()
            if self.story is None and self.call is not None:
                # It can't be stopped any more.
                self.gateway.scheduler.progress(self.call, 1)

    def _goes_on(self) -> None:
        """An attempt's first token is there: what a pause costs here is known now."""
        if self.call is not None and self.story is not None and self.story.base:
            self.gateway.scheduler.progress(self.call, 1)

    async def _fail(self, error: GatewayError) -> None:
        row = self.row
        row.reason = error.code
        row.status = STATUS_OF.get(error.code, "client_error" if error.status < 429 else "refused")
        await self.reply.fail(error)
        row.http_status = self.reply.status

    def _headers(self) -> list[tuple[bytes, bytes]]:
        row = self.row
        found = [(b"x-request-id", row.id.encode())]
        if row.client_request_id:
            found.append((b"x-client-request-id", row.client_request_id.encode()))
        if row.lane:
            found.append((b"x-lane", row.lane.encode()))
            found.append((b"x-priority-level", str(row.level).encode()))
        if row.replica:
            found.append((b"x-queue-wait-ms", str(round(row.queue_wait_ms)).encode()))
            found.append((b"x-replica", row.replica.encode()))
        found += self._rates.headers()
        return found

    def _account(self) -> None:
        """Close the call and write the row down. Nothing produced costs nothing."""
        row, usage, attempt = self.row, self._usage, self.attempt
        if self.story is not None:
            usage = self.story.total(usage)
        self._note_work()
        if self.call is not None:
            paused_for = self.call.paused_for
            row.preempted, row.displaced = len(paused_for), self.call.displaced
            row.preempted_for = paused_for[-1] if paused_for else ""
            if row.status == "ok":
                self.call.prompt, self.call.output = usage.prompt, usage.completion
            row.gpu_seconds = self.call.close()
        row.finished = self.gateway.clock.now()
        row.bytes_out = self.reply.bytes_out
        if usage.reported:
            row.prompt_tokens, row.cached_tokens = usage.prompt, usage.cached
            row.completion_tokens = usage.completion
        elif attempt is not None and (row.status == "ok" or self._produced(attempt)):
            told = self.story.transcript.prompt_tokens if self.story is not None else 0
            row.prompt_tokens = told or attempt.payload.prompt_tokens
            row.completion_tokens = self._produced(attempt)
            row.estimated = True
        # First what is owed: a fault in the rest must not lose it.
        self.gateway.usage.append(row)
        self._rates.settle(row, 1 if self.payload is None else self.payload.choices)
        self.gateway.stats.finished(row)
        self.gateway.rules.ended(self.ruling, row)

    def _produced(self, attempt: Attempt) -> int:
        """Output tokens that went out, over all attempts."""
        return attempt.tokens if self.story is None else self.story.transcript.tokens

    def _unlink(self) -> None:
        """Open the circles that callbacks make, so that what a request held is freed now: the
        collector would halt all others while it looks for it."""
        self.reply.unlink()
        if self.call is not None:
            self.call.on_preempt = _nothing
        if self.attempt is not None:
            self.attempt.on_content = self.attempt.on_token = _nothing


def _nothing() -> None:
    """The request is over: nobody listens any more."""


STATUS_OF = {
    "queue_timeout": "queue_timeout",
    "upstream_error": "upstream_error",
    "upstream_timeout": "upstream_timeout",
    "shutting_down": "shutting_down",
    "internal_error": "internal_error",
}
