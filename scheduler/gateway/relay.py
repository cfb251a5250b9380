"""One attempt: a request sent to a replica, its answer carried to the caller."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import msgspec

from scheduler.calls import Placed
from scheduler.core.events import Fault
from scheduler.engines import Engine, engine
from scheduler.engines.continuation import Continuation

from .answer import (
    MOST_ANSWER_BYTES,
    Assembler,
    UnreadableAnswerError,
    client_error,
    error_message,
    read_plain,
)
from .errors import GatewayError
from .naming import model_renamer
from .payload import Payload, is_null
from .reply import Reply
from .resumable import ResumableTap
from .seam import Seam
from .sse import EventTooLongError, Tap
from .story import Story
from .upstream import AttemptFailedError
from .usage import Usage

PASSED_ON = frozenset({400, 413, 422})
BUSY = frozenset({429, 503})
MOST_ERROR_BYTES = 1024 * 1024
# aiohttp's parser errors, when a body goes wrong half-way, are no ClientError.
BROKEN = (aiohttp.ClientError, aiohttp.http_exceptions.HttpProcessingError, OSError, ValueError)
# How often it is told how far a long answer is.
PROGRESS_EVERY_S = 1.0
# What a plain answer put together from a stream could not show rightly.
NOT_ASSEMBLED = frozenset({"logprobs", "top_logprobs", "prompt_logprobs", "best_of", "echo"})

_options = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class StreamBrokenError(Exception):
    """The replica broke off after content had gone out."""


@dataclass(slots=True)
class Attempt:
    """What is sent, and what came back so far. ``touched`` is loop time of the last byte, which
    ``heard`` has by replicas' URLs, ``answering`` whether there was one; ``sent`` whether the
    caller got any of it, and ``complete`` whether it was all there is. ``slot`` is the engine's,
    where it is given out here; ``worked`` counts prompt tokens that it computed, where it tells
    (else -1), and is
    ``noted`` once. ``idle`` while it waits for the replica, ``asked`` to stop before it waits
    again, ``over`` when it is only to be cleared away. ``on_tokens`` hears how many there are, at
    the first and then every ``PROGRESS_EVERY_S`` at most, next at ``tell_at`` (loop time)."""

    placed: Placed
    payload: Payload
    operation: str
    usage: Usage
    reply: Reply
    heard: dict[str, float]
    story: Story | None = None
    adapter: Engine = field(init=False)
    served: str = field(init=False)
    streamed: bool = field(init=False)
    told: str = field(init=False)
    counted: bool = field(init=False)
    slot: int | None = None
    tokens: int = 0
    worked: int = -1
    noted: bool = False
    touched: float = 0.0
    answering: bool = False
    sent: bool = False
    complete: bool = False
    idle: bool = False
    asked: bool = False
    over: bool = False
    on_content: Callable[[], None] = lambda: None
    on_tokens: Callable[[int], None] = lambda tokens: None
    tell_at: float = 0.0

    def __post_init__(self) -> None:
        facts, payload = self.placed.facts, self.payload
        self.adapter = engine(facts.engine)
        self.served = facts.models.get(payload.model, payload.model)
        self.told = self.adapter.tells(self.operation) if self.story is not None else ""
        self.counted = self.story is not None and self.adapter.counts and not self.told
        self.streamed = (
            payload.stream
            or self.story is not None
            or (
                not self.adapter.aborts_plain
                and self.operation != "embeddings"
                and payload.choices == 1
                and not payload.keys & NOT_ASSEMBLED
            )
        )

    def call(self, level: int) -> tuple[str, bytes]:
        """The operation and the body to send to this replica."""
        payload, facts, story = self.payload, self.placed.facts, self.story
        onward = Continuation(self.operation)
        if story is not None and not story.transcript.begun:
            story.transcript.model = self.served
        if story is not None and story.transcript.tokens:
            onward = self.adapter.continuation(
                payload.fields, self.operation, story.transcript.partial(self.served)
            )
        changes: dict[str, Any] = self.adapter.changes(
            payload.fields,
            served=self.served,
            public=payload.asked,
            level=level if facts.engine_priority else None,
        )
        if self.streamed and not payload.stream:
            changes["stream"] = True
        if asked := self._usage_options():
            given = payload.fields.get("stream_options")
            known = {} if given is None or is_null(given) else _options(given)
            changes["stream_options"] = {**known, **asked}
        if self.told and self.told not in payload.keys:
            changes[self.told] = True
        changes.update(onward.changes)
        without = onward.without
        if self.slot is not None:
            changes["id_slot"] = self.slot
        elif self.adapter.saves_slots:
            without += ("id_slot",)
        if "priority" in payload.keys and "priority" not in changes:
            without += ("priority",)
        return onward.operation, payload.rewritten(changes, without=without)

    def _usage_options(self) -> dict[str, bool]:
        """What a stream has to tell of its usage beyond what the caller asked for."""
        asked = {}
        if self.streamed and not self.payload.include_usage:
            asked["include_usage"] = True
        if self.counted and not self.payload.running_usage:
            asked["continuous_usage_stats"] = True
        return asked

    async def carry(self, response: aiohttp.ClientResponse) -> tuple[int, str]:
        """Carry the answer over. Returns its status and, for a 4xx, the reason code.

        Raises AttemptFailedError before any content, StreamBrokenError after.
        """
        status = response.status
        if status == 200:
            kind = response.headers.get("Content-Type", "")
            if kind.startswith("text/event-stream"):
                await self._stream(response)
            else:
                await self._plain(response)
            return 200, ""
        body = await self._read(response, MOST_ERROR_BYTES)
        if status in PASSED_ON:
            shown, reason = client_error(body, self.served, self.payload.model)
            await self.reply.plain(status, shown, [(b"x-fairlane-reason", reason.encode())])
            return status, reason
        fault = Fault.BUSY if status in BUSY else Fault.ERROR
        raise AttemptFailedError(fault, "upstream_error", f"the model server answered {status}")

    async def _next(self, response: aiohttp.ClientResponse) -> bytes:
        """What has come of the body since, b"" at its end. Raises AttemptFailedError or
        StreamBrokenError."""
        if self.asked:
            raise asyncio.CancelledError
        self.idle = True
        try:
            chunk = await response.content.readany()
        except BROKEN as error:
            raise self._broken("the model server broke off") from error
        finally:
            self.idle = False
        now = asyncio.get_running_loop().time()
        self.touched, self.answering = now, True
        self.heard[self.placed.facts.url] = now
        return chunk

    async def _read(self, response: aiohttp.ClientResponse, most: int) -> bytes:
        parts, size = [], 0
        while chunk := await self._next(response):
            parts.append(chunk)
            size += len(chunk)
            if size > most:
                raise self._broken("the model server's answer is too long")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def _plain(self, response: aiohttp.ClientResponse) -> None:
        body = await self._read(response, MOST_ANSWER_BYTES)
        try:
            shown = read_plain(body, self.usage, self.served, self.payload.model)
        except UnreadableAnswerError as error:
            raise self._broken(str(error)) from error
        self.on_content()
        # A caller may close with the last byte, before the server tells us that it is out.
        self.complete = True
        await self.reply.plain(200, shown)

    async def _stream(self, response: aiohttp.ClientResponse) -> None:
        payload, story = self.payload, self.story
        assembler = None
        if not payload.stream:
            assembler = Assembler(self.operation) if story is None else story.assembler
        tap = self._tap(payload.include_usage or assembler is not None)
        try:
            await self._pump(response, tap, assembler)
        except EventTooLongError:
            # Another replica would say the same again.
            raise self._broken("an event of the model server is too long", final=True) from None
        except UnreadableAnswerError as error:
            raise self._broken(f"the model server failed: {error}") from error
        if tap.error is not None:
            message = error_message(tap.error, self.served, payload.model)
            raise self._broken(message or "the model server failed")
        if not tap.complete:
            raise self._broken("the model server's stream ended early")
        if isinstance(tap, ResumableTap):
            await self._move(tap.closing(), tap, assembler)
        if assembler is None:
            self.complete = True
            await self.reply.end()
        else:
            self.on_content()
            self.complete = True
            await self.reply.plain(200, assembler.body())

    def _tap(self, show_usage: bool) -> Tap:
        payload, story = self.payload, self.story
        rename = model_renamer(self.served, payload.model)
        if story is None:
            return Tap(self.usage, show_usage=show_usage, rename=rename)
        transcript = story.transcript
        seam = None
        if transcript.tokens:
            seam = Seam(transcript.whole(), stops=story.stops, echoes=self.adapter.echoes)
        return ResumableTap(
            self.usage,
            transcript,
            show_usage=show_usage,
            rename=rename,
            public=payload.model,
            chat=self.operation == "chat",
            seam=seam,
            strip=bool(self.told) and self.told not in payload.keys,
            strip_usage=self.counted and not payload.running_usage,
            running_usage=payload.include_usage and payload.running_usage,
        )

    async def _pump(
        self, response: aiohttp.ClientResponse, tap: Tap, assembler: Assembler | None
    ) -> None:
        """Move events until the stream is done."""
        while chunk := await self._next(response):
            await self._move(tap.feed(chunk), tap, assembler)
            if tap.done:
                return
        await self._move(tap.finish(), tap, assembler)

    async def _move(self, events: bytes, tap: Tap, assembler: Assembler | None) -> None:
        self.tokens = tap.tokens
        if tap.seen and self.touched >= self.tell_at:
            self.tell_at = self.touched + PROGRESS_EVERY_S
            self.on_tokens(tap.seen)
        if isinstance(tap, ResumableTap):
            self.worked = tap.worked
        if not events:
            return
        if assembler is not None:
            assembler.feed(events)
            return
        if not self.sent:
            if b"data:" not in events:
                # An engine's heartbeat before its first word: another may yet have to answer.
                return
            self.sent = True
            self.on_content()
        await self.reply.event(events)

    def recomputed(self) -> int:
        """Of an attempt that was not the first, the tokens it had to compute again, as far as
        that can be known."""
        if self.worked >= 0:
            return self.worked
        if self.usage.reported:
            return max(0, self.usage.prompt - self.usage.cached)
        if self.adapter.keeps_prefix or not self.answering:
            return 0
        return self.payload.prompt_tokens + (self.story.base if self.story is not None else 0)

    def _broken(self, detail: str, *, final: bool = False) -> Exception:
        """Another replica may try while nothing has gone out, and later too where the answer
        can go on; else only an error is left."""
        if self.sent and (final or self.story is None or not self.story.can_go_on):
            return StreamBrokenError(detail)
        return AttemptFailedError(Fault.ERROR, "upstream_error", detail)


def broken_error(detail: str, code: str = "upstream_error") -> GatewayError:
    """The in-band error of a stream that broke."""
    return GatewayError(code, f"The answer could not be completed: {detail}.")
