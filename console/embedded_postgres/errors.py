"""What can go wrong with the embedded server."""


class EmbeddedPostgresError(RuntimeError):
    """The server could not be set up or started; the message is one line for an operator."""
