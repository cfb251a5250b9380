"""What the metering services refuse.

    RefusedError
     ├── BillingRequestError
     ├── CredentialRequestError
     ├── GradeRequestError
     ├── KeyRequestError
     ├── MemberRequestError
     └── QuotaRequestError

Each kind says once, as class attributes, which code and status it has wherever it surfaces.
"""

from collections.abc import Mapping


class RefusedError(ValueError):
    """A change that is not made; the message is one line for the person who asked."""

    code = "invalid_request"
    status = 400


class KeyRequestError(RefusedError):
    """A key that cannot be made or replaced as asked."""

    code = "invalid_key_request"


class CredentialRequestError(RefusedError):
    """A tier credential that cannot be issued or narrowed as asked."""

    code = "invalid_credential_request"


class QuotaRequestError(RefusedError):
    """Limits that cannot be set, asked for or decided as wanted. ``problems``: what is wrong,
    by field; empty where it is no field's fault."""

    code = "invalid_quota_request"

    def __init__(self, message: str, problems: Mapping[str, str] | None = None) -> None:
        self.problems = dict(problems or {})
        super().__init__(message)


class BillingRequestError(RefusedError):
    """Prices, a settlement, a month close, a credit note or an alert that cannot be as asked."""

    code = "invalid_billing_request"


class GradeRequestError(RefusedError):
    """A grade that cannot be asked for or decided as wanted."""

    code = "invalid_grade_request"


class MemberRequestError(RefusedError):
    """A membership that cannot be changed as asked."""

    code = "invalid_member_request"
