"""What is wrong with a request, in the words and the shape vLLM uses."""

from http import HTTPStatus

import msgspec


class ApiError(Exception):
    """An answer of the 4xx or 5xx kind."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "BadRequestError",
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param

    def body(self) -> bytes:
        """The JSON body."""
        return error_body(self.message, self.status, self.kind, self.param)


def error_body(message: str, status: int, kind: str = "", param: str | None = None) -> bytes:
    """``{"error": {"message", "type", "param", "code"}}``; ``kind`` defaults to the phrase of
    ``status``."""
    kind = kind or HTTPStatus(status).phrase.replace(" ", "") + "Error"
    return msgspec.json.encode(
        {"error": {"message": message, "type": kind, "param": param, "code": status}}
    )


def unknown_model(name: str) -> ApiError:
    """404 for a model this server does not have."""
    return ApiError(
        f"The model `{name}` does not exist.", status=404, kind="NotFoundError", param="model"
    )


def too_long(limit: int, prompt: int, wanted: int | None) -> ApiError:
    """400 for a prompt, or prompt and ``max_tokens`` together, beyond the context."""
    if wanted is None or prompt >= limit:
        return ApiError(
            f"This model's maximum context length is {limit} tokens. However, your request has "
            f"{prompt} input tokens. Please reduce the length of the input messages.",
            param="input_tokens",
        )
    return ApiError(
        f"'max_tokens' or 'max_completion_tokens' is too large: {wanted}. This model's maximum "
        f"context length is {limit} tokens and your request has {prompt} input tokens "
        f"({wanted} > {limit} - {prompt}).",
        param="max_tokens",
    )


def not_emulated(what: str, param: str) -> ApiError:
    """400 for what vLLM can do and this emulator cannot."""
    return ApiError(f"{what} is not emulated by this server.", param=param)
