"""Work that somebody asked for and nobody waits for."""

from celery import current_app
from kombu.exceptions import ChannelError, OperationalError


def start(task: str) -> None:
    """Have a worker begin at once. Where the broker does not take it, the clock's next turn
    does: what is to be done stands in the tables."""
    try:
        current_app.send_task(task)
    except (OperationalError, ChannelError, OSError):
        return
