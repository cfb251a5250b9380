"""One request from the caller's first byte to its usage row."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from metering.core.facts import LANES
from metering.core.usage import UsageRow
from scheduler.calls import Call, Placed, Refusal
from scheduler.core.classify import Claim, Classification, classify, tier_claim
from scheduler.core.ticket import Resume, Ticket
from scheduler.decision_log import Why

from .asgi_types import Receive, Send
from .callers import Caller
from .errors import GatewayError
from .incoming import Booking, Incoming, check_body, check_tag, read_body
from .payload import Payload, parse
from .ratelimit import Reservation
from .relay import Attempt, StreamBrokenError, broken_error
from .reply import Reply
from .upstream import AttemptFailedError
from .usage import Usage

if TYPE_CHECKING:
    from .app import Gateway

log = logging.getLogger(__name__)

GONE = "client_disconnect"  # it left, or reads nothing of what it asked for
MOST_NAME = 200


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
        self._task: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._booking = Booking(gateway.bodies)
        self._rates = Reservation(gateway.limiter, gateway.typical)

    @property
    def waits(self) -> bool:
        """Whether a stream's caller has seen no content yet."""
        return self.payload is not None and self.payload.stream and not self._content

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

    def _classify(self, payload: Payload) -> Classification:
        """Level and lane. Raises 403 and 404."""
        gateway, business, row = self.gateway, self.caller.business, self.row
        check_tag(self.incoming, business)
        model = gateway.fleet.models.get(payload.model)
        if model is None:
            raise GatewayError(
                "model_not_found",
                f"The model '{payload.model[:MOST_NAME]}' does not exist.",
                param="model",
            )
        if business.models is not None and payload.model not in business.models:
            raise GatewayError(
                "model_not_allowed", f"This key may not use '{payload.model}'.", param="model"
            )
        claim = self._claim(payload)
        found = classify(
            business,
            model,
            gateway.policy,
            ceiling=self.caller.ceiling,
            claim=claim,
            realtime=self.incoming.realtime,
        )
        row.claimed, row.base_level = claim.text, found.base_level
        row.level, row.lane = found.level, LANES[found.lane]
        if found.escalation:
            self._escalated(claim)
        return found

    def _escalated(self, claim: Claim) -> None:
        """A claim above the ceiling: counted, audited, and refused where the policy says so."""
        gateway, row, best = self.gateway, self.row, LANES[self.caller.ceiling]
        outcome = gateway.policy.classification.on_escalation
        gateway.stats.metrics.escalation(row.business)
        gateway.escalations.note(
            row.business,
            claimed=claim.text,
            ceiling=best,
            outcome=outcome,
            request=row.id,
            now=row.received,
        )
        if outcome == "refuse":
            raise GatewayError(
                "priority_not_allowed", f"This key may claim {best} at most.", param="priority"
            )

    def _claim(self, payload: Payload) -> Claim:
        """The header's claim, else the body's service tier."""
        return self.incoming.claim if self.incoming.claim.text else tier_claim(payload.service_tier)

    async def _serve(self, payload: Payload) -> None:
        found = self._classify(payload)
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
            resume=Resume.NEVER if payload.stream else Resume.RESTART,
        )
        why = Why(found, self.row.claimed)
        call = self.call = self.gateway.scheduler.open(ticket, why)
        call.on_preempt = self._yield
        outcome = await call.placed()
        while isinstance(outcome, Placed):
            if self._yielding:
                # Wanted back before it was used.
                self._yielding = False
                outcome = await call.yielded(produced=0)
                continue
            try:
                await self._try(outcome, payload, found.level)
                return
            except asyncio.CancelledError:
                if not self._stopped():
                    raise
                outcome = await call.yielded(produced=0)
            except AttemptFailedError as failure:
                log.warning(
                    "attempt %d of %s failed: %s", outcome.attempt, self.row.id, failure.detail
                )
                outcome = await call.failed(failure.fault)
                if isinstance(outcome, Refusal) and outcome.reason == "upstream_error":
                    raise GatewayError(failure.reason) from failure
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
        attempt = Attempt(placed, payload, self.operation, Usage(), self.reply)
        attempt.on_content = self._content_out
        attempt.touched = asyncio.get_running_loop().time()
        row.served_model = attempt.served
        self.attempt = attempt
        self._usage = attempt.usage
        response = await self.gateway.upstream.post(
            facts,
            attempt.adapter,
            self.operation,
            attempt.body(level),
            attempt_id=f"{row.id}-{placed.attempt}",
            trace=self.incoming.trace,
            limits=self.gateway.policy.failover,
        )
        try:
            row.http_status, row.reason = await attempt.carry(response)
            row.status = "ok" if row.http_status == 200 else "client_error"
        finally:
            # Closing tells the engine to stop; a connection read to its end is kept.
            response.close() if not response.content.at_eof() else response.release()

    def _yield(self) -> None:
        """The slot is wanted: stop, while the caller has seen nothing of the answer."""
        call, attempt = self.call, self.attempt
        if call is None or call.replica is None or self._interrupt is not None or self._content:
            return
        self._yielding = True
        begun = attempt is not None and attempt.placed.attempt == call.attempt
        if self._task is not None and begun:
            self._task.cancel()

    def _stopped(self) -> bool:
        """Whether a cancellation was ``_yield``'s: then it is over, and the request goes on."""
        if not self._yielding or self._interrupt is not None or self._task is None:
            return False
        self._yielding = False
        self._task.uncancel()
        return True

    def _content_out(self) -> None:
        self._content = True
        self.row.first_byte = self.gateway.clock.now()

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
        if self.call is not None:
            if row.status == "ok":
                self.call.prompt, self.call.output = usage.prompt, usage.completion
            row.gpu_seconds = self.call.close()
        row.finished = self.gateway.clock.now()
        row.bytes_out = self.reply.bytes_out
        if usage.reported:
            row.prompt_tokens, row.cached_tokens = usage.prompt, usage.cached
            row.completion_tokens = usage.completion
        elif attempt is not None and (row.status == "ok" or attempt.tokens):
            row.prompt_tokens = attempt.payload.prompt_tokens
            row.completion_tokens = attempt.tokens
            row.estimated = True
        self._rates.settle(row, 1 if self.payload is None else self.payload.choices)
        self.gateway.stats.finished(row)
        self.gateway.usage.append(row)

    def _unlink(self) -> None:
        """Open the circles that callbacks make, so that what a request held is freed now: the
        collector would halt all others while it looks for it."""
        self.reply.unlink()
        if self.call is not None:
            self.call.on_preempt = _nothing
        if self.attempt is not None:
            self.attempt.on_content = _nothing


def _nothing() -> None:
    """The request is over: nobody listens any more."""


STATUS_OF = {
    "queue_timeout": "queue_timeout",
    "upstream_error": "upstream_error",
    "upstream_timeout": "upstream_timeout",
    "shutting_down": "shutting_down",
    "internal_error": "internal_error",
}
