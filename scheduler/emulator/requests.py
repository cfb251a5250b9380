"""Request bodies as vLLM takes them; fields it knows and this server doesn't need are ignored."""

import msgspec

from .errors import ApiError, not_emulated

MAX_CHOICES = 16


class StreamOptions(msgspec.Struct):
    """``stream_options``."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class Part(msgspec.Struct):
    """One part of a message's content."""

    type: str = "text"
    text: str | None = None


class Message(msgspec.Struct):
    """One turn."""

    role: str
    content: str | list[Part] | None = None


class Sampling(msgspec.Struct, kw_only=True):
    """What chat and completions share."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    include_stop_str_in_output: bool = False
    ignore_eos: bool = False
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    priority: int = 0
    return_token_ids: bool | None = None
    vllm_xargs: dict[str, str | int | float] | None = None
    cache_salt: str | None = None

    @property
    def answer_tokens(self) -> int | None:
        """Tokens after which the answer is to end by itself, its end included: what this
        server's one extra argument says, so that whoever calls knows and no gateway does."""
        told = (self.vllm_xargs or {}).get("answer_tokens")
        return told if isinstance(told, int) else None

    @property
    def stops(self) -> list[str]:
        """The stop strings."""
        if self.stop is None:
            return []
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def choices(self) -> int:
        """Answers asked for."""
        return 1 if self.n is None else self.n

    def check(self) -> None:
        """Raises ApiError for values out of range, as vLLM does."""
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ApiError(
                f"max_tokens must be at least 1, got {self.max_tokens}.", param="max_tokens"
            )
        if not 1 <= self.choices <= MAX_CHOICES:
            raise ApiError(f"n must be 1 to {MAX_CHOICES}, got {self.choices}.", param="n")
        if self.temperature is not None and self.temperature < 0:
            raise ApiError(
                f"temperature must be non-negative, got {self.temperature}.", param="temperature"
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ApiError(f"top_p must be in (0, 1], got {self.top_p}.", param="top_p")
        if self.cache_salt == "":
            raise ApiError(
                "Parameter 'cache_salt' must be a non-empty string if provided.",
                param="cache_salt",
            )
        if any(not stop for stop in self.stops):
            raise ApiError("stop cannot contain an empty string.", param="stop")
        if self.answer_tokens is not None and self.answer_tokens < 1:
            raise ApiError("answer_tokens must be at least 1.", param="vllm_xargs")
        if self.stream_options is not None and not self.stream:
            raise ApiError(
                "Stream options can only be defined when `stream=True`.", param="stream_options"
            )


class ChatRequest(Sampling, kw_only=True):
    """``POST /v1/chat/completions``."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tool_choice: str | dict[str, object] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False

    def check(self) -> None:
        """Raises ApiError for what vLLM refuses and what is not emulated."""
        if self.max_completion_tokens is not None:
            self.max_tokens = self.max_completion_tokens
        super().check()
        if self.continue_final_message and self.add_generation_prompt:
            raise ApiError(
                "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
            )
        if self.logprobs:
            raise not_emulated("logprobs", "logprobs")
        if self.tool_choice not in {None, "none", "auto"}:
            raise not_emulated("A required tool call", "tool_choice")
        if not self.messages:
            raise ApiError("messages must not be empty.", param="messages")


class CompletionRequest(Sampling, kw_only=True):
    """``POST /v1/completions``. ``prompt``: a text, texts, token ids, or lists of token ids."""

    prompt: str | list[str | int | list[int]]
    logprobs: int | None = None
    echo: bool | None = None
    suffix: str | None = None

    def check(self) -> None:
        """Raises ApiError for what vLLM refuses and what is not emulated."""
        # The old interface's own default.
        self.max_tokens = 16 if self.max_tokens is None else self.max_tokens
        super().check()
        if self.logprobs is not None:
            raise not_emulated("logprobs", "logprobs")
        if self.echo:
            raise not_emulated("echo", "echo")
        if self.suffix:
            raise ApiError("suffix is not currently supported", param="suffix")


class EmbeddingRequest(msgspec.Struct, kw_only=True):
    """``POST /v1/embeddings``."""

    model: str
    input: str | list[str | int | list[int]]
    encoding_format: str = "float"
    dimensions: int | None = None
    priority: int = 0


class TokenizeRequest(msgspec.Struct, kw_only=True):
    """``POST /tokenize``: a ``prompt`` or ``messages``."""

    model: str | None = None
    prompt: str | None = None
    messages: list[Message] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class DetokenizeRequest(msgspec.Struct, kw_only=True):
    """``POST /detokenize``."""

    tokens: list[int]
    model: str | None = None
