"""What a caller sends besides the body: who it is, and what it claims."""

from dataclasses import dataclass, field

from metering.core.facts import AccessSnapshot, BusinessFacts, KeyFacts
from metering.core.keys import KEY_PREFIX, digest
from scheduler.core.classify import Claim, parse_claim

from .asgi_types import Headers, Receive
from .errors import GatewayError

MOST_CLIENT_ID = 128


@dataclass(slots=True)
class Incoming:
    """The headers that Fairlane understands, each once, as text. Names come in lower case;
    an ``x-`` before a name is cut off."""

    authorization: str = ""
    api_key: str = ""
    credential: str = ""
    biz_tag: str = ""
    claim: Claim = field(default_factory=Claim)
    realtime: str | None = None
    request_id: str = ""
    content_type: str = ""
    content_encoding: str = ""
    length: int | None = None
    trace: list[tuple[str, str]] = field(default_factory=list)
    trace_id: str = ""


def read_headers(headers: Headers) -> Incoming:
    """Pick out what counts. Of two claims the one that asks for less holds; two different
    credentials are none."""
    found = Incoming()
    for raw_name, raw_value in headers:
        name = raw_name.decode("latin-1").lower().removeprefix("x-")
        setter = SETTERS.get(name)
        if setter is not None:
            setter(found, raw_value.decode("latin-1").strip())
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
    found.trace.append(("traceparent", value))
    parts = value.split("-")
    if len(parts) >= 4 and len(parts[1]) == 32:
        found.trace_id = parts[1]


def _credential(found: Incoming, value: str) -> None:
    found.credential = value


def _biz_tag(found: Incoming, value: str) -> None:
    found.biz_tag = value


def _realtime(found: Incoming, value: str) -> None:
    found.realtime = value.lower()


def _request_id(found: Incoming, value: str) -> None:
    if value.isprintable() and value.isascii():
        found.request_id = value[:MOST_CLIENT_ID]


def _content_type(found: Incoming, value: str) -> None:
    found.content_type = value.partition(";")[0].strip().lower()


def _content_encoding(found: Incoming, value: str) -> None:
    found.content_encoding = value.lower()


def _tracestate(found: Incoming, value: str) -> None:
    found.trace.append(("tracestate", value))


SETTERS = {
    "authorization": _authorization,
    "api-key": _api_key,
    "tier-credential": _credential,
    "biz-tag": _biz_tag,
    "priority": _claim,
    "realtime": _realtime,
    "request-id": _request_id,
    "content-type": _content_type,
    "content-encoding": _content_encoding,
    "content-length": _length,
    "traceparent": _trace,
    "tracestate": _tracestate,
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, and the most urgent lane (index) that its credentials allow."""

    business: BusinessFacts
    key: KeyFacts
    ceiling: int


def authenticate(incoming: Incoming, access: AccessSnapshot, pepper: bytes, now: int) -> Caller:
    """The caller, by key. ``now`` in ns. Raises the same 401 whatever was wrong."""
    key = incoming.api_key
    if incoming.authorization:
        scheme, _, rest = incoming.authorization.partition(" ")
        key = rest.strip() if scheme.lower() == "bearer" else ""
    if not key.startswith(KEY_PREFIX) or incoming.credential:
        raise GatewayError("invalid_api_key")
    facts = access.keys.get(digest(key, pepper))
    if facts is None or (facts.expires is not None and facts.expires <= now):
        raise GatewayError("invalid_api_key")
    business = access.businesses.get(facts.business)
    if business is None:
        raise GatewayError("invalid_api_key")
    ceiling = business.ceiling if facts.ceiling is None else max(business.ceiling, facts.ceiling)
    return Caller(business, facts, ceiling)


def check_tag(incoming: Incoming, business: BusinessFacts) -> None:
    """A biz-tag, where sent, must name the caller's own business. Raises 403."""
    tag = incoming.biz_tag
    if tag and tag != business.name and tag not in business.tags:
        raise GatewayError("biz_tag_mismatch", param="biz-tag")


class BodyBudget:
    """Bytes of large bodies held at once, over all requests: the bound on memory."""

    COUNTED_FROM = 64 * 1024

    def __init__(self, most_body: int, most_held: int) -> None:
        self.most_body = most_body
        self.most_held = most_held
        self.held = 0

    def take(self, size: int) -> int:
        """Book ``size`` bytes; returns what was booked. Raises 413 or 429."""
        if size > self.most_body:
            raise GatewayError("body_too_large", f"The body may have {self.most_body} bytes.")
        if size < self.COUNTED_FROM:
            return 0
        if self.held + size > self.most_held:
            raise GatewayError("backpressure", retry_after=1.0)
        self.held += size
        return size

    def give_back(self, booked: int) -> None:
        """Undo one ``take``."""
        self.held -= booked


def check_body(incoming: Incoming, budget: BodyBudget) -> None:
    """Refuse by headers alone what need not be read."""
    if incoming.content_encoding not in ("", "identity"):
        raise GatewayError("invalid_request", "Compressed bodies are not accepted.")
    kind = incoming.content_type
    if kind and kind != "application/json" and not kind.endswith("+json"):
        raise GatewayError("invalid_request", "The content type must be application/json.")
    if incoming.length is not None and incoming.length > budget.most_body:
        raise GatewayError("body_too_large", f"The body may have {budget.most_body} bytes.")


async def read_body(receive: Receive, most: int) -> bytes | None:
    """The whole body, or None where the caller left. Raises 413 as soon as it is too long."""
    message = await receive()
    if message["type"] == "http.disconnect":
        return None
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        if len(body) > most:
            raise GatewayError("body_too_large", f"The body may have {most} bytes.")
        return bytes(body)
    parts, size = [body], len(body)
    while True:
        if size > most:
            raise GatewayError("body_too_large", f"The body may have {most} bytes.")
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
