"""What ends a start."""


class UpError(RuntimeError):
    """What keeps Fairlane from running; the message is one line for whoever started it."""
