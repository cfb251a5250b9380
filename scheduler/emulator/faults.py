"""What servers do wrong, on command: ``POST /emulator/faults`` with any of these fields.

Without ``count`` a fault lasts until it is replaced or cleared; with it, it ends after that
many inference requests. Fields left out are off.
"""

from typing import Annotated, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0)]
Whole = Annotated[int, msgspec.Meta(ge=0)]
UsageFault = Literal[
    "zeros_first",
    "null_until_end",
    "running_totals",
    "on_finish_chunk",
    "none",
    "cached_over_prompt",
]


class Faults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The faults in force.

    Before the answer: ``refuse`` is a status (503, 429) for "busy", with ``retry_after``
    seconds if given; ``error`` is a status (500) with ``error_message``;
    ``stall_before_headers_s`` waits that long. ``never_ready`` concerns /health only.

    In the answer: ``stall_after_tokens`` stops the output there (for ``stall_s`` seconds, or
    until the client leaves), ``reset_after_chunks`` resets the TCP connection there,
    ``error_after_chunks`` sends vLLM's in-band error frame there and ends, ``huge_line_bytes``
    makes the first content line of a stream that long, ``byte_writes`` sends one byte per
    write, ``gzip`` compresses and adds hop-by-hop headers and a cookie, ``plain_for_stream``
    answers plain JSON to a streamed call, ``echo_partial`` repeats a continued message's
    text before what is new, ``usage`` reports tokens in another server's manner,
    ``raw_events`` replaces a stream's bytes with these, one write each.

    ``ignore_disconnect`` goes on generating when the client has left.
    """

    count: Annotated[int, msgspec.Meta(ge=1)] | None = None
    refuse: Whole | None = None
    retry_after: Whole | None = None
    error: Whole | None = None
    error_message: str = "emulated failure"
    stall_before_headers_s: Seconds = 0.0
    never_ready: bool = False
    stall_after_tokens: Whole | None = None
    stall_s: Seconds | None = None
    reset_after_chunks: Whole | None = None
    error_after_chunks: Whole | None = None
    huge_line_bytes: Whole = 0
    byte_writes: bool = False
    gzip: bool = False
    plain_for_stream: bool = False
    echo_partial: bool = False
    usage: UsageFault | None = None
    raw_events: list[str] | None = None
    ignore_disconnect: bool = False

    @property
    def in_stream(self) -> bool:
        """Whether a stream needs more than plain writing."""
        return bool(
            self.stall_after_tokens is not None
            or self.reset_after_chunks is not None
            or self.error_after_chunks is not None
            or self.raw_events is not None
            or self.huge_line_bytes
            or self.byte_writes
            or self.gzip
        )


NO_FAULTS = Faults()


class FaultBox:
    """The faults in force, and how many requests they still concern."""

    def __init__(self) -> None:
        self.current = NO_FAULTS
        self._left: int | None = None

    def set(self, faults: Faults) -> None:
        """Replace whatever was in force."""
        self.current = faults
        self._left = faults.count

    def clear(self) -> None:
        """Behave well again, for requests that start from now on."""
        self.set(NO_FAULTS)

    def take(self) -> Faults:
        """The faults for one more inference request."""
        faults = self.current
        if self._left is not None:
            self._left -= 1
            if not self._left:
                self.clear()
        return faults
