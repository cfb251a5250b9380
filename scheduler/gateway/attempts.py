"""The attempts of one request, one after another, until its answer is whole or refused."""

import asyncio
import logging
from typing import TYPE_CHECKING

from metering.core.usage import UsageRow
from scheduler.calls import Call, Placed, Refusal
from scheduler.core.events import Fault
from scheduler.core.policy import Failover

from .errors import GatewayError
from .payload import Payload
from .relay import Attempt, broken_error
from .reply import Reply
from .seating import Seating
from .story import Story
from .upstream import AttemptFailedError
from .usage import Usage

if TYPE_CHECKING:
    from .app import Gateway

log = logging.getLogger(__name__)

# How a request ends whose replica broke off or fell silent.
BROKEN = {"upstream_error", "upstream_timeout"}


class Attempts:
    """What a request carries from attempt to attempt. Runs in its exchange's task, which only
    ``interrupted`` ends for good: a cancellation of another cause stops one attempt."""

    __slots__ = (
        "_again",
        "_content",
        "_first",
        "_gateway",
        "_level",
        "_limits",
        "_operation",
        "_paused",
        "_payload",
        "_reply",
        "_row",
        "_seating",
        "_silent",
        "_task",
        "_trace",
        "_usage",
        "_vanished",
        "_yielding",
        "attempt",
        "call",
        "interrupted",
        "story",
    )

    def __init__(
        self,
        gateway: "Gateway",
        row: UsageRow,
        reply: Reply,
        call: Call,
        *,
        payload: Payload,
        operation: str,
        level: int,
        story: Story | None,
        trace: list[tuple[str, str]],
        limits: Failover,
    ) -> None:
        self.call = call
        self.story = story
        self._limits = limits
        self.attempt: Attempt | None = None
        self.interrupted = False
        self._gateway = gateway
        self._row = row
        self._reply = reply
        self._payload = payload
        self._operation = operation
        self._level = level
        self._trace = trace
        self._task: asyncio.Task[None] | None = asyncio.current_task()
        self._seating = Seating(gateway.slots, row.id)
        self._usage = Usage()
        self._content = self._paused = self._again = False
        self._yielding = self._silent = self._vanished = False
        self._first = 0
        call.on_preempt = self._yield
        if call.ticket.model != payload.model:
            # A lighter one: that was decided as the call was opened.
            row.degraded_to = payload.model = call.ticket.model

    @property
    def waits(self) -> bool:
        """Whether the caller has seen no content yet, or none since a pause."""
        return self._paused or not self._content

    @property
    def complete(self) -> bool:
        """Whether the caller has, or is getting, all there is."""
        return self.attempt is not None and self.attempt.complete

    @property
    def produced(self) -> int:
        """Output tokens that went out, over all attempts."""
        if self.story is not None:
            return self.story.transcript.tokens
        return 0 if self.attempt is None else self.attempt.tokens

    @property
    def prompt_told(self) -> int:
        """Prompt tokens as an engine told them in passing; 0 where none did."""
        return 0 if self.story is None else self.story.transcript.prompt_told

    @property
    def cached_told(self) -> int:
        """Those of them that an engine told it had found in its prefix cache."""
        return 0 if self.story is None else self.story.transcript.cached_tokens

    @property
    def guessed(self) -> bool:
        """Whether ``produced`` is a count of events, not of tokens."""
        return self.story is None or self.story.transcript.guessed

    @property
    def base_guessed(self) -> bool:
        """Whether tokens of a part that was cut off were not counted by its engine."""
        return self.story is not None and self.story.guessed

    def total(self) -> Usage:
        """Usage of the whole answer, as far as engines reported it."""
        return self._usage if self.story is None else self.story.total(self._usage)

    async def run(self) -> Refusal | None:
        """Carry the answer to the caller; returns the scheduler's refusal where there is no
        further attempt. Raises GatewayError with what a replica's failure comes to."""
        call = self.call
        outcome = await call.placed()
        while isinstance(outcome, Placed):
            if self._yielding:
                # Wanted back before it was used.
                self._yielding = False
                outcome = await call.yielded(self._pause())
                continue
            try:
                await self._try(outcome)
                return None
            except asyncio.CancelledError:
                if not self._stopped():
                    raise
                if self._silent:
                    outcome = await self._failed(outcome, self._silence(outcome))
                    continue
                saved = await self._save()
                self._seating.leave()
                self._yielding = False
                outcome = await call.yielded(self._pause(), saved=saved)
            except AttemptFailedError as failure:
                outcome = await self._failed(outcome, failure)
        return outcome

    async def _failed(self, placed: Placed, failure: AttemptFailedError) -> Placed | Refusal:
        """Ask for another attempt; where there is none, raise what this one said."""
        self._seating.leave()
        # Whoever wanted its slot gets it now.
        self._yielding = self._silent = False
        log.warning("attempt %d of %s failed: %s", placed.attempt, self._row.id, failure.detail)
        outcome = await self.call.failed(failure.fault, self._pause())
        if isinstance(outcome, Refusal) and outcome.reason == "upstream_error":
            if self._content:
                raise broken_error(failure.detail, failure.reason) from failure
            raise GatewayError(failure.reason) from failure
        return outcome

    async def _try(self, placed: Placed) -> None:
        """One attempt on one replica."""
        row, facts = self._row, placed.facts
        row.attempts = placed.attempt
        row.dispatched = row.dispatched or placed.at
        row.queue_wait_ms = placed.waited / 1e6
        row.replica = facts.name
        # What an attempt that failed reported is nobody's debt: each begins from nothing.
        heard = self._gateway.heard
        attempt = Attempt(
            placed, self._payload, self._operation, Usage(), self._reply, heard, self.story
        )
        attempt.on_content, attempt.on_tokens = self._content_out, self._progress
        attempt.touched = asyncio.get_running_loop().time()
        row.served_model = attempt.served
        self.attempt = attempt
        self._usage = attempt.usage
        attempt.idle = True
        attempt.slot = await self._seating.sit(placed, attempt.adapter, self._payload)
        operation, body = attempt.call(self._level)
        response = await self._gateway.upstream.post(
            facts,
            attempt.adapter,
            operation,
            body,
            attempt_id=f"{row.id}-{placed.attempt}",
            trace=self._trace,
            limits=self._limits,
        )
        attempt.idle = False
        heard[facts.url] = asyncio.get_running_loop().time()
        try:
            row.http_status, row.reason = await attempt.carry(response)
            row.status = "ok" if row.http_status == 200 else "client_error"
        finally:
            attempt.over = True
            await self._gateway.upstream.leave(response)

    def _yield(self) -> None:
        """The slot is wanted: stop, if the answer can go on later or the caller has seen
        nothing of it. The relay is cut only while it waits for the replica, never while it
        hands something on: so what was counted as sent was sent."""
        attempt, story = self.attempt, self.story
        if self.call.replica is None or self.interrupted:
            return
        if self._content and (story is None or not story.can_go_on):
            return
        if story is not None and story.said_all:
            return  # it is over sooner than it could be stopped
        self._yielding = True
        if attempt is not None and attempt.placed.attempt == self.call.attempt:
            if attempt.idle and self._task is not None:
                self._task.cancel()
            else:
                attempt.asked = True

    def unheard(self, now: float, limits: Failover) -> str:
        """Who keeps the answer from going on for longer than a limit allows: "" nobody yet,
        "replica", "caller", who reads nothing, or "gone": a replica that answers no probes
        either, which has no longer for a byte than a connection may take. Loop time."""
        attempt, call = self.attempt, self.call
        if attempt is None or attempt.over or call.replica is None:
            return ""
        silent = (now - attempt.touched) * 1000
        if silent > (limits.idle_ms if attempt.answering else limits.first_byte_ms):
            return "replica" if attempt.idle else "caller"
        if silent <= limits.connect_ms or not attempt.idle:
            return ""
        return "" if self._gateway.scheduler.is_up(call.replica, call.generation) else "gone"

    def abandon(self, *, gone: bool) -> bool:
        """The replica has fallen silent: stop the attempt, so that another goes on. False where
        none can, or where the first byte is still due and the replica is not ``gone``: for all
        we know it is at work, and another one would do the same work beside it."""
        attempt, story = self.attempt, self.story
        if attempt is None or self._task is None:
            return False
        begun = self._content or (story is not None and story.base > 0)
        if begun and (story is None or not story.can_go_on):
            return False
        if not gone and (story is None or not (attempt.answering or begun)):
            return False
        self._silent, self._vanished = True, gone
        self._task.cancel()
        return True

    def _silence(self, placed: Placed) -> AttemptFailedError:
        """One that is gone is no failure of an engine's: it makes no work twice."""
        fault = Fault.UNREACHABLE if self._vanished else Fault.SILENT
        detail = f"{placed.facts.name} has fallen silent"
        return AttemptFailedError(fault, "upstream_timeout", detail)

    def _stopped(self) -> bool:
        """Whether a cancellation was for this attempt alone: then it is over, and the request
        goes on."""
        attempt = self.attempt
        if attempt is not None:
            attempt.over = True
        if not (self._yielding or self._silent) or self.interrupted or self._task is None:
            return False
        while self._task.cancelling():
            self._task.uncancel()
        return True

    async def _save(self) -> bool:
        """Whether what the attempt has computed is kept, by the engine or in a snapshot. The
        slot is not free before: whoever gets it would overwrite what is to be saved."""
        attempt, story = self.attempt, self.story
        if attempt is None or story is None:
            return False
        if attempt.adapter.saves_slots:
            return await self._seating.save(self._payload.prompt_tokens + story.transcript.tokens)
        return attempt.adapter.keeps_prefix and attempt.answering

    def _pause(self) -> int:
        """The attempt is over, the request is not: output tokens that the next one goes on from."""
        self._paused = True
        self._note_work()
        if self.story is None:
            return 0
        # What it reported is in the transcript from now on: it must not count twice.
        self._usage = Usage()
        return self.story.pause()

    def _note_work(self) -> None:
        """The attempt is over: count what it did a second time, once."""
        attempt = self.attempt
        if attempt is None or attempt.noted:
            return
        attempt.noted = True
        if self._again:
            self._row.recomputed_tokens += attempt.recomputed()
        self._again |= attempt.sent or attempt.tokens > 0

    def _content_out(self) -> None:
        self._paused = False
        if not self._content:
            self._content = True
            self._row.first_byte = self._gateway.clock.now()

    def _progress(self, tokens: int) -> None:
        """The attempt has come to so many tokens."""
        self._first = self._first or self._gateway.clock.now()
        self._gateway.scheduler.progress(self.call, tokens)

    def leave(self) -> None:
        """Nothing of the request runs any more, and nothing of it is kept."""
        self._task = None
        self._seating.leave()
        self._seating.drop()

    def close(self) -> None:
        """Let go of the call, and tell the row what the attempts came to."""
        row, call = self._row, self.call
        self._note_work()
        row.preempted, row.displaced = len(call.paused_for), call.displaced
        row.preempted_for = call.paused_for[-1] if call.paused_for else ""
        if row.status == "ok":
            call.whole = True
            usage = self.total()
            call.prompt, call.output = usage.prompt, usage.completion
            call.cached = self._gateway.reports.found(call, self._usage)
        # Of an answer that came as a whole nobody knows when its first token was there.
        call.first = row.first_byte if self._operation == "embeddings" else self._first
        call.broken = row.status in BROKEN
        row.gpu_seconds = call.close()

    def unlink(self) -> None:
        """Open the circles that callbacks make, so that what a request held is freed now: the
        collector would halt all others while it looks for it."""
        self.call.on_preempt = _nothing
        if self.attempt is not None:
            self.attempt.on_content, self.attempt.on_tokens = _nothing, _unheard


def _nothing() -> None:
    """The request is over: nobody listens any more."""


def _unheard(tokens: int) -> None:
    """The same of tokens."""
