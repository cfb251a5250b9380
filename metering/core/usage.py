"""What the gateway writes down about one request before it forgets it."""

from dataclasses import dataclass


@dataclass(slots=True)
class UsageRow:
    """One finished request; becomes one ``UsageRecord``.

    ``id`` is the request's UUIDv7 as text. Times are ns since the epoch, 0 where it never
    came to that: the process clock's while the request is open, dates once it is written down.
    ``level`` and ``base_level`` are None where the request was refused before it was classified.
    Tokens are the engine's own figures unless ``estimated``. ``preempted`` counts how often it
    gave its slot up for another request, and ``recomputed_tokens`` what had to be computed again
    after that or a failure, as far as it can be known; neither is part of the other figures.
    ``preempted_for`` is the id of the request that it last made room for, ``displaced`` of the
    one that last made room for it. ``degraded_to`` is the lighter model that ran in place of the
    requested one, if one did.
    """

    id: str
    business: str
    key_prefix: str
    operation: str
    received: int
    status: str = "internal_error"
    http_status: int = 0
    reason: str = ""
    client_request_id: str = ""
    stream: bool = False
    requested_model: str = ""
    served_model: str = ""
    claimed: str = ""
    base_level: int | None = None
    level: int | None = None
    lane: str = ""
    dispatched: int = 0
    first_byte: int = 0
    finished: int = 0
    queue_wait_ms: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    estimated: bool = False
    gpu_seconds: float = 0.0
    attempts: int = 0
    preempted: int = 0
    recomputed_tokens: int = 0
    preempted_for: str = ""
    displaced: str = ""
    replica: str = ""
    bytes_in: int = 0
    bytes_out: int = 0
    trace_id: str = ""
    credential: str = ""
    degraded_to: str = ""

    @property
    def model(self) -> str:
        """The model that ran, or was to: what the request is charged for."""
        return self.degraded_to or self.requested_model

    def move(self, ns: int) -> None:
        """All its times are later by so much."""
        self.received += ns
        self.finished += ns
        if self.dispatched:
            self.dispatched += ns
        if self.first_byte:
            self.first_byte += ns


@dataclass(slots=True, unsafe_hash=True)
class Consumed:
    """What a request came to, or is expected to come to; never changed once it is made, but not
    frozen, for that makes each of them three times as dear. ``counted`` False: it is as if it
    had never been made; ``billed`` False: it costs no money."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    gpu_seconds: float = 0.0
    counted: bool = True
    billed: bool = True

    @property
    def tokens(self) -> int:
        """Of prompt and answer together."""
        return self.prompt + self.completion


NOTHING = Consumed()
