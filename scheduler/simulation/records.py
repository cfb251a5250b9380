"""What a run leaves behind, for the figures."""

from array import array


class Foretold:
    """Requests that ran from end to end in one attempt: what their services were foretold wrong
    by, the same where the answer's true length is told, and what their latencies were (ns);
    and the sums of the true ones."""

    def __init__(self) -> None:
        self.service_errors = array("q")
        self.known_errors = array("q")
        self.latency_errors = array("q")
        self.services = self.latencies = 0

    def note(self, service: int, known: int, latency: int, true: int, whole: int) -> None:
        """One more of them: by how much each figure was wrong (ns), its true service and
        latency."""
        self.service_errors.append(abs(service))
        self.known_errors.append(abs(known))
        self.latency_errors.append(abs(latency))
        self.services += true
        self.latencies += whole


class Records:
    """What became of each request, by index, and of the cards, by whole second.

    ``ended`` and ``waited`` (all time in a queue) are ns; ``busy`` and ``ready`` are
    slot-ns from the beginning until each second. ``preempted`` holds the moments of
    preemptions, ``wasted`` (moment, slot-ns) of work that had to be done twice. ``cached`` are
    the tokens of each prompt that were found in a cache when it ran first. ``foretold``
    is by lane. ``cards`` is card-seconds until each second, ``started`` and ``given_back`` how
    often cards were.
    """

    def __init__(self, requests: int) -> None:
        self.outcome = bytearray(requests)
        self.ended = array("q", bytes(8 * requests))
        self.waited = array("q", bytes(8 * requests))
        self.cached = array("i", bytes(4 * requests))
        self.busy = [0]
        self.ready = [0]
        self.cards = [0]
        self.started = self.given_back = 0
        self.preempted = array("q")
        self.wasted: list[tuple[int, int]] = []
        self.foretold = [Foretold() for _ in range(3)]
