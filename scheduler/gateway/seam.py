"""Where one attempt's text meets the next: no word doubled, no stop string missed."""

# A shorter text may well be followed by itself; only a longer one is taken for an echo.
LEAST_ECHO = 12


class Seam:
    """Passes on what an attempt adds to the text so far.

    Some engines repeat a partial answer before they continue it, whole and in their first
    word. An answer that goes on with what it said before does so token by token.
    A stop string may begin in the old text and end in the new: then the answer ends there.
    """

    def __init__(self, before: str, *, stops: tuple[str, ...], echoes: bool) -> None:
        self._before = before if echoes and len(before) >= LEAST_ECHO else ""
        longest = max((len(stop) for stop in stops), default=0)
        self._tail = before[-(longest - 1) :] if longest > 1 else ""
        self._room = longest - 1
        self._stops = stops
        self.stopped = False

    def add(self, piece: str) -> str:
        """The part of ``piece`` that may go out."""
        if self.stopped:
            return ""
        if self._before and piece:
            piece, self._before = piece.removeprefix(self._before), ""
        return self._until_stop(piece) if self._room > 0 and piece else piece

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
