"""What a request comes to on its usage row: its status and its tokens."""

from metering.core.usage import UsageRow

from .attempts import Attempts
from .errors import GatewayError

STATUS_OF = {
    "queue_timeout": "queue_timeout",
    "upstream_error": "upstream_error",
    "upstream_timeout": "upstream_timeout",
    "shutting_down": "shutting_down",
    "internal_error": "internal_error",
}


def note_error(row: UsageRow, error: GatewayError) -> None:
    """The row says why there was no answer."""
    row.reason = error.code
    row.status = STATUS_OF.get(error.code, "client_error" if error.status < 429 else "refused")


def note_tokens(row: UsageRow, attempts: Attempts) -> None:
    """Tokens of the whole answer: as engines counted them, else what went out, marked as an
    estimate. Nothing produced costs nothing."""
    usage, attempt = attempts.total(), attempts.attempt
    if usage.reported:
        row.prompt_tokens, row.cached_tokens = usage.prompt, usage.cached
        row.completion_tokens = usage.completion
        row.estimated = attempts.base_guessed
    elif attempt is not None and (row.status == "ok" or attempts.produced):
        row.prompt_tokens = attempts.prompt_told or attempt.payload.prompt_tokens
        row.cached_tokens = min(attempts.cached_told, row.prompt_tokens)
        row.completion_tokens = attempts.produced
        row.estimated = attempts.guessed or not attempts.prompt_told
