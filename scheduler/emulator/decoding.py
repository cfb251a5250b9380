"""From tokens to text as it leaves: unfinished characters and possible stop strings wait. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .engine import Finish
from .tokens import Detokenizer


@dataclass(frozen=True, slots=True)
class Piece:
    """What one token adds: perhaps no text yet. ``stop_reason`` is the stop string or id."""

    text: str
    ids: list[int]
    finish: Finish | None = None
    stop_reason: str | int | None = None


@dataclass(slots=True)
class Answer:
    """One choice of an answer while it grows."""

    stops: Sequence[str] = ()
    stop_ids: frozenset[int] = frozenset()
    keep_stop: bool = False
    text: str = ""
    sent: int = 0
    ids: list[int] = field(default_factory=list)
    finish: Finish | None = None
    stop_reason: str | int | None = None
    _detokenizer: Detokenizer = field(default_factory=Detokenizer)

    def feed(self, token: int, finish: Finish | None) -> Piece:
        """Take one token; the answer is over when the piece has a ``finish``."""
        self.ids.append(token)
        searched = len(self.text)
        self.text += self._detokenizer.feed(token)
        if finish is not None:
            self.text += self._detokenizer.finish()
        self.finish = finish
        if token in self.stop_ids:
            self.finish, self.stop_reason = "stop", token
        if self.stops:
            self._find_stop(searched)
        ready = len(self.text)
        if self.finish is None and self.stops:
            ready = max(self.sent, ready - max(map(len, self.stops)) + 1)
        fresh = self.text[self.sent : ready]
        self.sent = ready
        return Piece(fresh, [token], self.finish, self.stop_reason)

    def _find_stop(self, searched: int) -> None:
        hits: list[tuple[int, str]] = []
        for stop in self.stops:
            at = self.text.find(stop, max(0, searched - len(stop) + 1))
            if at >= 0:
                hits.append((at, stop))
        if hits:
            at, stop = min(hits, key=lambda hit: hit[0])
            self.finish, self.stop_reason = "stop", stop
            self.text = self.text[: at + len(stop) if self.keep_stop else at]
