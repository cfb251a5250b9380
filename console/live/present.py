"""The newest live figures, for pages and programs that ask once."""

from scheduler.live import BusinessLive, LiveFrame

from .hub import get_hub


def present_frame() -> LiveFrame | None:
    """What the scheduler published last, as this process heard it; None before the first.

    Frames are replaced and never changed, so any thread may read one.
    """
    return get_hub().board.frame


def present_business(name: str) -> BusinessLive | None:
    """One business's own part of it; None where it had no traffic, or nothing was heard."""
    frame = present_frame()
    return None if frame is None else frame.businesses.get(name)
