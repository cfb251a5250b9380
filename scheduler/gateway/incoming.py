"""What a caller sends besides the body: who it is, and what it claims."""

import asyncio
import contextlib
import re
import time

import msgspec

from metering.core.facts import BusinessFacts
from scheduler.core.classify import Claim, parse_claim

from .asgi_types import Headers, Receive
from .errors import GatewayError

LINGER_S = 5.0
MOST_CLIENT_ID = 128
MOST_SESSION = 256
MS = 1_000_000
# Up to eleven days.
MILLIS = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")


class Incoming(msgspec.Struct):
    """The headers that Fairlane understands, each once, as text."""

    authorization: str = ""
    api_key: str = ""
    credential: str = ""
    biz_tag: str = ""
    claim: Claim = Claim()
    realtime: str | None = None
    # ns; None: not said, 0: what was said is no time.
    latency_budget: int | None = None
    request_id: str = ""
    session: str = ""
    idempotency_key: str = ""
    content_type: str = ""
    content_encoding: str = ""
    length: int | None = None
    trace: list[tuple[str, str]] = []
    trace_id: str = ""


def read_headers(headers: Headers) -> Incoming:
    """Pick out what counts. Of two claims the one that asks for less holds; two different
    credentials are none."""
    found = Incoming()
    for name, value in headers:
        setter = SETTERS.get(name)
        if setter is not None:
            setter(found, value.decode("latin-1").strip())
    return found


def _authorization(found: Incoming, value: str) -> None:
    found.authorization = value if found.authorization in ("", value) else "Bearer ?"


def _api_key(found: Incoming, value: str) -> None:
    found.api_key = value if found.api_key in ("", value) else "?"


def _claim(found: Incoming, value: str) -> None:
    claim = parse_claim(value)
    if _urgency(claim) > _urgency(found.claim) or not found.claim.text:
        found.claim = claim


def _urgency(claim: Claim) -> int:
    """Least urgent is greatest: what to keep of two claims."""
    if claim.level is not None:
        return claim.level
    return -1 if claim.lane is None else (0, 3, 7)[claim.lane]


def _length(found: Incoming, value: str) -> None:
    found.length = int(value) if value.isdecimal() else None


def _trace(found: Incoming, value: str) -> None:
    match = TRACEPARENT.fullmatch(value)
    if match is not None and not found.trace_id:
        found.trace.append(("traceparent", value))
        found.trace_id = match[1]


def _credential(found: Incoming, value: str) -> None:
    found.credential = value if found.credential in ("", value) else "?"


def _biz_tag(found: Incoming, value: str) -> None:
    found.biz_tag = value


def _realtime(found: Incoming, value: str) -> None:
    found.realtime = value.lower()


def _latency_budget(found: Incoming, value: str) -> None:
    given = round(float(value) * MS) if MILLIS.fullmatch(value) else 0
    found.latency_budget = max(given, found.latency_budget or 0)


def _request_id(found: Incoming, value: str) -> None:
    if value.isprintable() and value.isascii():
        found.request_id = value[:MOST_CLIENT_ID]


def _session(found: Incoming, value: str) -> None:
    found.session = session_name(value) or found.session


def session_name(given: str) -> str:
    """The name of a conversation as given, or empty where it is no plain or too long a one: a part
    of it could be another's name."""
    plain = given.isascii() and given.isprintable() and len(given) <= MOST_SESSION
    return given if plain else ""


def _idempotency_key(found: Incoming, value: str) -> None:
    found.idempotency_key = value


def _content_type(found: Incoming, value: str) -> None:
    found.content_type = value.partition(";")[0].strip().lower()


def _content_encoding(found: Incoming, value: str) -> None:
    found.content_encoding = value.lower()


def _tracestate(found: Incoming, value: str) -> None:
    if value.isprintable() and value.isascii():
        found.trace.append(("tracestate", value))


# HTTP's own, under these names and no others.
PLAIN = {
    b"authorization": _authorization,
    b"content-type": _content_type,
    b"content-encoding": _content_encoding,
    b"content-length": _length,
    b"idempotency-key": _idempotency_key,
    b"traceparent": _trace,
    b"tracestate": _tracestate,
}
# Fairlane's own, understood with and without an ``x-``.
OWN = {
    b"api-key": _api_key,
    b"tier-credential": _credential,
    b"biz-tag": _biz_tag,
    b"priority": _claim,
    b"realtime": _realtime,
    b"latency-budget-ms": _latency_budget,
    b"request-id": _request_id,
    b"session-id": _session,
}
SETTERS = {**PLAIN, **OWN, **{b"x-" + name: setter for name, setter in OWN.items()}}


def check_tag(incoming: Incoming, business: BusinessFacts) -> None:
    """A biz-tag, where sent, must name the caller's own business. Raises 403."""
    tag = incoming.biz_tag
    if tag and tag != business.name and tag not in business.tags:
        raise GatewayError("biz_tag_mismatch", param="biz-tag")


class BodyBudget:
    """Bytes of large bodies held at once, over all requests: the bound on memory."""

    COUNTED_FROM = 64 * 1024
    LEAST_WAIT_S = 1.0
    FORGET = 16

    def __init__(self, most_body: int, most_held: int) -> None:
        self.most_body = most_body
        self.most_held = most_held
        self.held = 0
        # How long a body is held, by the longest of late: then there is room again.
        self.wait_s = self.LEAST_WAIT_S

    def check(self, size: int) -> None:
        """Raise 413 for a body of this size, however it came to be known."""
        if size > self.most_body:
            raise GatewayError("body_too_large", f"The body may have {self.most_body} bytes.")


class Booking:
    """One body's part of the budget. It grows as bytes arrive, so that a caller who only
    announces a body holds nothing."""

    __slots__ = ("_budget", "_since", "_size")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self._since = 0.0
        self._size = 0

    def grow(self, size: int) -> None:
        """The body has ``size`` bytes so far. Raises 413 or 429."""
        budget = self._budget
        budget.check(size)
        if size < budget.COUNTED_FROM:
            return
        if budget.held + size - self._size > budget.most_held:
            raise GatewayError("backpressure", retry_after=budget.wait_s)
        if not self._size:
            self._since = time.monotonic()
        budget.held += size - self._size
        self._size = size

    def release(self) -> None:
        """The body is no longer held. Safe to call twice."""
        if not self._size:
            return
        budget = self._budget
        budget.held -= self._size
        self._size = 0
        took = time.monotonic() - self._since
        faded = budget.wait_s - (budget.wait_s - took) / budget.FORGET
        budget.wait_s = max(took, faded, budget.LEAST_WAIT_S)


def check_body(incoming: Incoming, budget: BodyBudget) -> None:
    """Refuse by headers alone what need not be read."""
    if incoming.content_encoding not in ("", "identity"):
        raise GatewayError("unsupported_media_type", "Compressed bodies are not accepted.")
    kind = incoming.content_type
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise GatewayError("unsupported_media_type", "The content type must be application/json.")
    budget.check(incoming.length or 0)


async def read_body(receive: Receive, booking: Booking, length: int | None) -> bytes | None:
    """The whole body, or None where the caller left. Raises 413 as soon as it is too long.

    With the announced ``length`` read there is no need to be told that no more comes."""
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        part: bytes = message.get("body", b"")
        size += len(part)
        booking.grow(size)
        parts.append(part)
        if size == length or not message.get("more_body"):
            return bytes(part) if len(parts) == 1 else b"".join(parts)


async def discard_body(receive: Receive) -> None:
    """Read on, after a refusal, what its caller still sends, for a while, and keep none of it.

    Most clients read no answer before they have sent everything, and a connection closed
    under them takes the answer with it: they would see a reset, and try again.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
