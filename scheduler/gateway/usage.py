"""Token counts as engines report them."""

from dataclasses import dataclass

import msgspec

from scheduler.calls import Call


class Details(msgspec.Struct):
    """Of the prompt tokens, those found in the prefix cache."""

    cached_tokens: int | None = None


class Reported(msgspec.Struct):
    """The ``usage`` object of an answer, as far as Fairlane reads it."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None


class Answer(msgspec.Struct):
    """The fields of a plain answer or a stream's event that Fairlane looks at.

    ``error`` is empty where there is none: a Raw in a union with None takes nothing but null.
    """

    object: str | None = None
    model: str | None = None
    usage: Reported | None = None
    choices: list[msgspec.Raw] | None = None
    error: msgspec.Raw = msgspec.Raw()

    def failure(self, payload: bytes) -> bytes | None:
        """The error object in ``payload``, of which this is the reading; None: no error.
        vLLM once sent the error's own fields at the top."""
        if memoryview(self.error).nbytes and bytes(self.error) != b"null":
            return bytes(self.error)
        return payload if self.object == "error" else None


read_answer = msgspec.json.Decoder(Answer).decode


@dataclass(slots=True)
class Usage:
    """Tokens of one request. The last snapshot that says anything wins, never a sum."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    reported: bool = False
    # Whether ``cached`` is the engine's word.
    told: bool = False

    def take(self, reported: Reported | None) -> None:
        """Take a snapshot over; zeros and absent figures never replace real ones."""
        if reported is None:
            return
        prompt = reported.prompt_tokens or 0
        completion = reported.completion_tokens or 0
        if prompt <= 0 and completion <= 0:
            return
        self.prompt = max(prompt, 0) or self.prompt
        self.completion = max(completion, 0) or self.completion
        details = reported.prompt_tokens_details
        if details is not None and details.cached_tokens is not None:
            self.told = True
            self.cached = details.cached_tokens or self.cached
        # More cached than prompted cannot be: a faulty engine must not turn into a credit.
        self.cached = min(max(self.cached, 0), self.prompt)
        self.reported = True


class CacheReports:
    """Which replicas tell what they find in their prefix caches. vLLM and SGLang, started so, tell
    it where it is more than nothing: of one that has told before, silence means nothing found."""

    def __init__(self) -> None:
        self._tells: dict[str, int] = {}

    def found(self, call: Call, usage: Usage) -> int | None:
        """Prompt tokens that the call's only attempt found there; None: not known."""
        if call.replica is None or call.attempt != 1 or not usage.reported:
            return None
        if usage.told:
            self._tells[call.replica] = call.generation
        return usage.cached if self._tells.get(call.replica) == call.generation else None
