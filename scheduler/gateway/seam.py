"""Where one attempt's text meets the next: no word doubled, no stop string missed."""

# A shorter text may well be followed by itself; only a longer one is taken for an echo.
LEAST_ECHO = 12


class Seam:
    """Passes on what an attempt adds to the text so far.

    Some engines repeat a partial answer before they continue it: text that begins as the
    old one did is held until it is either the whole of it, and dropped, or something else.
    A stop string may begin in the old text and end in the new: then the answer ends there.
    """

    def __init__(self, before: str, *, stops: tuple[str, ...], echoes: bool) -> None:
        self._before = before if echoes and len(before) >= LEAST_ECHO else ""
        self._held = ""
        longest = max((len(stop) for stop in stops), default=0)
        self._tail = before[-(longest - 1) :] if longest > 1 else ""
        self._room = longest - 1
        self._stops = stops
        self.stopped = False

    def add(self, piece: str) -> str:
        """The part of ``piece`` (and of what was held) that may go out."""
        if self.stopped:
            return ""
        if self._before:
            piece = self._unecho(piece)
        return self._until_stop(piece) if self._room > 0 and piece else piece

    def rest(self) -> str:
        """The stream has ended: what was held was no echo after all."""
        held, self._held, self._before = self._held, "", ""
        return held

    def _unecho(self, piece: str) -> str:
        self._held += piece
        before = self._before
        if len(self._held) < len(before) and before.startswith(self._held):
            return ""
        held, self._held, self._before = self._held, "", ""
        return held.removeprefix(before)

    def _until_stop(self, piece: str) -> str:
        """Look for stop strings that span the seam; those within the new text are the
        engine's business."""
        seen = self._tail + piece
        start = len(self._tail)
        for stop in self._stops:
            at = seen.find(stop)
            if 0 <= at < start:
                self.stopped = True
                return ""
        self._room -= len(piece)
        self._tail = seen
        return piece
