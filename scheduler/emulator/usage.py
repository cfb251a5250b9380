"""How token counts are reported: as vLLM does, or in the manner of a fault. Pure."""

from dataclasses import dataclass

import msgspec

from .faults import UsageFault

Usage = dict[str, int | dict[str, int]]


@dataclass(slots=True)
class UsageReport:
    """The counts of one call and where they show.

    ``asked``: a usage chunk at the end; ``continuous``: counts in every chunk too;
    ``details``: with the cached share of the prompt, where there is one.
    """

    asked: bool
    continuous: bool
    details: bool
    fault: UsageFault | None = None
    prompt: int = 0
    completion: int = 0
    cached: int = 0

    def now(self) -> Usage:
        """The counts so far, in vLLM's order."""
        usage: Usage = {
            "prompt_tokens": self.prompt,
            "total_tokens": self.prompt + self.completion,
            "completion_tokens": self.completion,
        }
        if self.details:
            over = self.fault == "cached_over_prompt"
            cached = self.prompt + 100 if over else self.cached
            # vLLM says nothing where it has found nothing.
            if cached:
                usage["prompt_tokens_details"] = {"cached_tokens": cached}
        return usage

    def in_chunk(self, *, last: bool) -> bytes:
        """What a chunk carries behind its choices: nothing, or ``,"usage":...``."""
        match self.fault:
            case "zeros_first":
                zeros = {"prompt_tokens": 0, "total_tokens": 0, "completion_tokens": 0}
                return b',"usage":' + msgspec.json.encode(zeros)
            case "null_until_end":
                return b',"usage":null'
            case "on_finish_chunk" if last:
                return b',"usage":' + msgspec.json.encode(self.now())
            case "on_finish_chunk" | "none":
                return b""
        if self.continuous or self.fault == "running_totals":
            return b',"usage":' + msgspec.json.encode(self.now())
        return b""

    @property
    def at_end(self) -> bool:
        """Whether a usage chunk closes the stream."""
        if self.fault in {"on_finish_chunk", "none"}:
            return False
        return self.asked or self.fault is not None

    @property
    def in_whole(self) -> bool:
        """Whether a plain answer has it."""
        return self.fault != "none"
