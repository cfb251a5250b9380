"""What the metering services refuse.

    RefusedError
     ├── BillingRequestError
     ├── CredentialRequestError
     └── KeyRequestError

Each kind says once, as class attributes, which code and status it has wherever it surfaces.
"""


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


class BillingRequestError(RefusedError):
    """Prices, a settlement, a month close, a credit note or an alert that cannot be as asked."""

    code = "invalid_billing_request"
