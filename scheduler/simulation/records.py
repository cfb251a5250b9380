"""What a run leaves behind, for the figures."""

from array import array


class Records:
    """What became of each request, by index, and of the cards, by whole second.

    ``ended`` and ``waited`` (all time in a queue) are ns; ``busy`` and ``ready`` are
    slot-ns from the beginning until each second. ``preempted`` holds the moments of
    preemptions, ``wasted`` (moment, slot-ns) of work that had to be done twice.
    """

    def __init__(self, requests: int) -> None:
        self.outcome = bytearray(requests)
        self.ended = array("q", bytes(8 * requests))
        self.waited = array("q", bytes(8 * requests))
        self.busy = [0]
        self.ready = [0]
        self.preempted = array("q")
        self.wasted: list[tuple[int, int]] = []
