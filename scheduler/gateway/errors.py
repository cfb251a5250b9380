"""Refusals and failures as callers see them.

    GatewayError
    ├── Refused        429 and 503: not now (Retry-After)
    └── the rest       400-415, 502, 504

Each names its HTTP status and reason code once; the body is OpenAI's error shape.
"""

from http import HTTPStatus

import msgspec

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    500: "server_error",
    502: "upstream_error",
    503: "server_error",
    504: "upstream_error",
}

STATUS = {
    "invalid_request": 400,
    "context_length_exceeded": 400,
    "invalid_api_key": 401,
    "priority_not_allowed": 403,
    "model_not_allowed": 403,
    "biz_tag_mismatch": 403,
    "model_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "rate_limit_requests": 429,
    "rate_limit_tokens": 429,
    "concurrency_exceeded": 429,
    "budget_exhausted": 429,
    "queue_full": 429,
    "queue_timeout": 429,
    "backpressure": 429,
    "latency_budget_unreachable": 429,
    "tenant_suspended": 429,
    "internal_error": 500,
    "upstream_error": 502,
    "upstream_timeout": 504,
    "no_capacity": 503,
    "shutting_down": 503,
}

MESSAGES = {
    "invalid_api_key": "Incorrect API key provided.",
    "biz_tag_mismatch": "The biz-tag header does not name the business of this key.",
    "rate_limit_requests": "Requests come faster than this business or credential may make them.",
    "rate_limit_tokens": "More tokens are asked for than this business or credential may use.",
    "concurrency_exceeded": "Too many requests of this business are running or waiting.",
    "budget_exhausted": "This month's budget is spent.",
    "queue_full": "The queue is full.",
    "queue_timeout": "The request waited longer than its lane allows.",
    "latency_budget_unreachable": "The answer could not begin within its latency budget.",
    "no_capacity": "No replica that serves this model is available.",
    "tenant_suspended": "This business is suspended.",
    "shutting_down": "The gateway is shutting down.",
    "upstream_error": "The model server failed.",
    "upstream_timeout": "The model server did not answer in time.",
    "internal_error": "Something went wrong inside the gateway.",
    "backpressure": "More urgent work waits, or too much is held already; try again shortly.",
    "body_too_large": "The request body is too large.",
}


NOT_NOW = (429, 503)
# Somebody has to change the limit first.
BLOCKED_S = 3600.0


class GatewayError(Exception):
    """Ends a request with an error body. ``retry_after`` is in seconds; a 429 or 503 without it
    lasts until somebody changes something. ``retry`` False says that asking again is of no use
    before that either way."""

    def __init__(
        self,
        code: str,
        message: str = "",
        *,
        param: str | None = None,
        retry_after: float | None = None,
        retry: bool = True,
    ) -> None:
        self.code = code
        self.status = STATUS[code]
        self.message = message or MESSAGES.get(code, code)
        self.param = param
        self.retry_after = retry_after
        self.retry = retry
        if retry_after is None and self.status in NOT_NOW:
            self.retry_after, self.retry = BLOCKED_S, False
        super().__init__(self.message)

    def body(self) -> bytes:
        """The JSON body in OpenAI's shape."""
        return msgspec.json.encode(
            {
                "error": {
                    "message": self.message,
                    "type": TYPES[self.status],
                    "param": self.param,
                    "code": self.code,
                }
            }
        )

    def frame(self) -> bytes:
        """The same as one server-sent event, for after a 200 has gone out."""
        return b"data: " + self.body() + b"\n\n"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Headers that tell a client what to do about it."""
        found = [(b"x-fairlane-reason", self.code.encode())]
        if self.status == HTTPStatus.UNAUTHORIZED:
            found.append((b"www-authenticate", b"Bearer"))
        if self.retry_after is not None:
            millis = max(1, round(self.retry_after * 1000))
            found.append((b"retry-after", str(max(1, -(-millis // 1000))).encode()))
            found.append((b"retry-after-ms", str(millis).encode()))
        if not self.retry:
            found.append((b"x-should-retry", b"false"))
        return found
