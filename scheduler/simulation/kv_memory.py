"""A card's KV memory, as engines with prefix caching use it.

What nobody runs in keeps what was computed there, until those who run need the room: then the
oldest goes first, and of what was left at one moment the end before the beginning. Content that
others may find again comes in blocks of ``PREFIX_BLOCK`` tokens, each named by all that precedes it
(see ``Ticket.blocks``); those that run and have blocks in common hold them once. Everything else is
found again by nobody but the request that left it there, when it goes on after a pause.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.ticket import PREFIX_BLOCK


@dataclass(slots=True)
class Holding:
    """What one running request holds: the first ``shared`` of its ``blocks``, and ``own`` tokens
    that nobody shares."""

    blocks: Sequence[int]
    shared: int
    own: int


class KvMemory:
    """``tokens`` is its size; None: not limited. ``used`` tokens are held by running requests."""

    def __init__(self, tokens: int | None) -> None:
        self.tokens = tokens
        self.used = 0
        # How many running requests hold a block.
        self._held: dict[int, int] = {}
        # Tokens that nobody holds and that may still be found, the oldest first: by block, or
        # below 0 by the request that left them.
        self._left: OrderedDict[int, int] = OrderedDict()
        self._cached = 0

    def cap(self, tokens: int) -> int:
        """What can be held at most of so many: what is too long for a card has it to itself."""
        return tokens if self.tokens is None else min(tokens, self.tokens)

    def fits(self, need: int, context: int = 1, blocks: Sequence[int] = ()) -> bool:
        """Whether there is room for ``need`` tokens beside what runs. Of the first ``context``,
        in ``blocks``, what a running request holds need not be there twice."""
        if self.tokens is None:
            return True
        more = self.cap(need)
        for block in _findable(context, blocks):
            if block not in self._held:
                break
            more -= PREFIX_BLOCK
        return self.used + max(0, more) <= self.tokens

    def take(
        self, request: int, need: int, context: int, blocks: Sequence[int]
    ) -> tuple[Holding, int]:
        """Reserve ``need`` tokens for a request. Returns what it holds, and how many of the
        ``context`` tokens it begins with were found; the last one is computed in any case."""
        left = self._left.pop(_mark(request), 0)
        self._cached -= left
        found = min(left, context - 1)
        shared = 0
        for block in _findable(context, blocks):
            if block not in self._held and block not in self._left:
                break
            self._hold(block)
            shared += 1
        own = max(0, self.cap(need) - shared * PREFIX_BLOCK)
        self.used += own
        self._evict()
        return Holding(blocks, shared, own), max(found, shared * PREFIX_BLOCK)

    def computed(self, holding: Holding, tokens: int) -> None:
        """The first ``tokens`` of a running request have been computed: others may find them."""
        most = holding.shared + holding.own // PREFIX_BLOCK
        for block in holding.blocks[holding.shared : min(tokens // PREFIX_BLOCK, most)]:
            # Its own copy is the one that is kept, or goes if there is one already.
            holding.own -= PREFIX_BLOCK
            self.used -= PREFIX_BLOCK
            self._hold(block)
            holding.shared += 1

    def leave(self, request: int, holding: Holding, tokens: int, *, ended: bool) -> None:
        """A request stops running with so many tokens computed, for good if it has ``ended``."""
        self.computed(holding, tokens)
        self.used -= holding.own
        for block in reversed(holding.blocks[: holding.shared]):
            self._held[block] -= 1
            if not self._held[block]:
                del self._held[block]
                self.used -= PREFIX_BLOCK
                self._left[block] = PREFIX_BLOCK
                self._cached += PREFIX_BLOCK
        # What has ended takes its turn in being forgotten, though nobody will look for it.
        if not holding.blocks and tokens and not (ended and self.tokens is None):
            self._left[_mark(request)] = tokens
            self._cached += tokens
        self._evict()

    def clear(self) -> None:
        """Lose everything."""
        self._held.clear()
        self._left.clear()
        self.used = self._cached = 0

    def _hold(self, block: int) -> None:
        if block in self._held:
            self._held[block] += 1
            return
        self._cached -= self._left.pop(block, 0)
        self._held[block] = 1
        self.used += PREFIX_BLOCK

    def _evict(self) -> None:
        if self.tokens is None:
            return
        while self._left and (excess := self.used + self._cached - self.tokens) > 0:
            key, tokens = self._left.popitem(last=False)
            gone = tokens if key >= 0 else min(tokens, excess)
            self._cached -= gone
            if gone < tokens:
                self._left[key] = tokens - gone
                self._left.move_to_end(key, last=False)


def _findable(context: int, blocks: Sequence[int]) -> Sequence[int]:
    """Blocks that may be found instead of computed: the last token never is."""
    return blocks[: (context - 1) // PREFIX_BLOCK]


def _mark(request: int) -> int:
    return -1 - request
