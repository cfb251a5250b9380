"""One request from the caller's first byte to its usage row."""

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from metering.core.usage import UsageRow
from scheduler.core.ticket import Ticket
from scheduler.decision_log import Why

from .accounts import note_error, note_tokens
from .admission import admit, budget_of, lighter_than, resume_of, story_of
from .asgi_types import Receive, Send
from .attempts import Attempts
from .callers import Caller
from .errors import GatewayError
from .headers import own_headers
from .incoming import Booking, Incoming, check_body, read_body
from .payload import Payload, parse
from .prefix import blocks_of, session_of
from .ratelimit import Reservation
from .relay import StreamBrokenError, broken_error
from .reply import Reply

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
        self.attempts: Attempts | None = None
        self.payload: Payload | None = None
        self.unread = True
        self.began = asyncio.get_running_loop().time()
        self._receive = receive
        self._interrupt: str | None = None
        self._task: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._booking = Booking(gateway.bodies)
        self._rates = Reservation(gateway, row)

    @property
    def waits(self) -> bool:
        """Whether a stream's caller has seen no content yet, or none since a pause."""
        streams = self.payload is not None and self.payload.stream
        return streams and (self.attempts is None or self.attempts.waits)

    @property
    def queued(self) -> bool:
        """Whether it holds no slot."""
        return self.attempts is None or self.attempts.call.replica is None

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
            if self.attempts is not None:
                self.attempts.leave()
            self._account()
            self.reply.unlink()
            if self.attempts is not None:
                self.attempts.unlink()

    def interrupt(self, reason: str) -> None:
        """End the request from outside: the caller left, time is up, or the gateway stops.
        A caller that leaves ends the telling of another reason too."""
        first = self._interrupt is None
        if self._task is not None and (first or (reason == GONE != self._interrupt)):
            self._interrupt = reason
            if self.attempts is not None:
                self.attempts.interrupted = True
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
        if self.attempts is not None and self.attempts.complete:
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
        budget = budget_of(self.incoming, self.caller, ruling.policy, found)
        story = story_of(payload, self.operation, found.lane)
        generative = self.operation != "embeddings"
        await self._rates.take(self.caller, payload, ruling.policy, generative=generative)
        ticket = Ticket(
            id=self.row.id,
            business=self.caller.business.name,
            model=payload.model,
            lane=found.lane,
            level=found.level,
            arrived=self.row.received,
            prompt=payload.prompt_tokens if generative else 0,
            output=payload.output_tokens * payload.choices,
            budget=budget,
            budget_named=self.incoming.latency_budget is not None,
            resume=resume_of(story),
            session=session_of(self.incoming, payload, self.caller.business.name),
            order=ruling.order,
            patience=ruling.patience(found.lane),
            realtime=found.features.realtime == "high",
            lighter=lighter_than(self.gateway, ruling, self.caller, payload.model, self.operation),
            blocks=blocks_of(payload, self.operation),
            streamed=payload.stream or story is not None,
        )
        call = self.gateway.scheduler.open(ticket, Why(found, self.row.claimed, ruling.version))
        self.attempts = Attempts(
            self.gateway,
            self.row,
            self.reply,
            call,
            payload=payload,
            operation=self.operation,
            level=call.ticket.level,
            story=story,
            trace=self.incoming.trace,
            limits=ruling.policy.failover,
        )
        refusal = await self.attempts.run()
        if refusal is not None:
            # Given back before it is told, so that the answer's own headers are true.
            note_tokens(self.row, self.attempts)
            self._rates.settle(self.row, payload.choices)
            message = ""
            if refusal.reason == "no_capacity":
                message = f"No replica that serves '{self.row.requested_model}' is available."
            raise GatewayError(refusal.reason, message, retry_after=refusal.retry_after)

    async def _fail(self, error: GatewayError) -> None:
        note_error(self.row, error)
        await self.reply.fail(error)
        self.row.http_status = self.reply.status

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return own_headers(self.row) + self._rates.headers()

    def _account(self) -> None:
        """Close the call and write the row down."""
        row = self.row
        if self.attempts is not None:
            self.attempts.close()
            note_tokens(row, self.attempts)
        row.finished = now = self.gateway.clock.now()
        row.bytes_out = self.reply.bytes_out
        # First what is owed, with dates for times: a fault in the rest must not lose it.
        self.gateway.usage.append(row)
        self._rates.settle(row, 1 if self.payload is None else self.payload.choices)
        self.gateway.stats.finished(row, now)
        self.gateway.rules.ended(self.ruling, row)
