"""KV memory in blocks of 16 tokens with a prefix cache. Pure.

A block is *held* by the sequences that use it, or *idle*: full, kept for the next prompt
with the same beginning, and given away oldest first when memory is short. Only whole
blocks are shared; a block stands for everything before it too, so its key is a chain, which
begins with the root of what is to be shared: prompts of different roots have no block in common.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

BLOCK_TOKENS = 16


def blocks_for(tokens: int) -> int:
    """Blocks that hold ``tokens``."""
    return -(-tokens // BLOCK_TOKENS)


def chain_key(before: int, tokens: Sequence[int]) -> int:
    """The key of a full block of ``tokens`` behind the block of key ``before`` (0: none)."""
    return hash((before, tuple(tokens)))


@dataclass(slots=True)
class Holding:
    """The blocks of one sequence: ``shared`` keys of its full blocks from the first on, and
    the number of ``private`` blocks after them. Its chain of keys begins with ``root``."""

    shared: list[int] = field(default_factory=list)
    private: int = 0
    root: int = 0

    @property
    def blocks(self) -> int:
        """All blocks of the sequence."""
        return len(self.shared) + self.private


@dataclass(frozen=True, slots=True)
class Stored:
    """Blocks that can be found from now on, one behind the other: ``keys``, the key ``before`` the
    first of them (0: it begins a prompt), and their ``tokens``."""

    keys: Sequence[int]
    before: int
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class Removed:
    """A block that has been given away."""

    key: int


@dataclass(frozen=True, slots=True)
class Cleared:
    """Every idle block has been dropped."""


Change = Stored | Removed | Cleared


def _unheard(change: Change) -> None:
    """Nobody listens."""


class BlockPool:
    """``capacity`` blocks. ``used`` never exceeds it; idle blocks are on top of ``used``.
    ``on_change`` hears of each change of what can be found."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._holders: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._private = 0
        self.on_change: Callable[[Change], None] = _unheard

    @property
    def used(self) -> int:
        """Blocks held by sequences; a shared block counts once."""
        return len(self._holders) + self._private

    @property
    def free(self) -> int:
        """Blocks that can be taken, idle ones included."""
        return self.capacity - self.used

    @property
    def idle(self) -> int:
        """Blocks kept for their contents alone."""
        return len(self._idle)

    def find_prefix(self, tokens: Sequence[int], limit: int, root: int = 0) -> list[int]:
        """Keys of the cached full blocks at the beginning of ``tokens``, at most ``limit``."""
        found: list[int] = []
        key = root
        for at in range(0, limit * BLOCK_TOKENS, BLOCK_TOKENS):
            key = chain_key(key, tokens[at : at + BLOCK_TOKENS])
            if key not in self._holders and key not in self._idle:
                break
            found.append(key)
        return found

    def take(self, prefix: Sequence[int], blocks: int, root: int = 0) -> Holding | None:
        """Hold the cached ``prefix`` and enough more to make ``blocks``; None when short."""
        from_idle = sum(1 for key in prefix if key in self._idle)
        more = max(0, blocks - len(prefix))
        if more + from_idle > self.free:
            return None
        for key in prefix:
            self._idle.pop(key, None)
            self._holders[key] = self._holders.get(key, 0) + 1
        self._private += more
        self._make_room()
        return Holding(list(prefix), more, root)

    def grow(self, holding: Holding, blocks: int) -> bool:
        """Extend to ``blocks``; False, and nothing changed, when short."""
        more = blocks - holding.blocks
        if more > self.free:
            return False
        if more > 0:
            holding.private += more
            self._private += more
            self._make_room()
        return True

    def share(self, holding: Holding, tokens: Sequence[int], computed: int) -> None:
        """Make the full blocks among the first ``computed`` of ``tokens`` findable."""
        new = 0
        for index in range(len(holding.shared), computed // BLOCK_TOKENS):
            before = holding.shared[-1] if holding.shared else holding.root
            at = index * BLOCK_TOKENS
            key = chain_key(before, tokens[at : at + BLOCK_TOKENS])
            holding.shared.append(key)
            holding.private -= 1
            self._private -= 1
            new += key not in self._idle and key not in self._holders
            # An equal block somebody else computed meanwhile takes the place of this one.
            self._idle.pop(key, None)
            self._holders[key] = self._holders.get(key, 0) + 1
        if new:
            # Where a block is known, so are those before it.
            start = len(holding.shared) - new
            before = holding.shared[start - 1] if start else 0
            span = tokens[start * BLOCK_TOKENS : len(holding.shared) * BLOCK_TOKENS]
            self.on_change(Stored(holding.shared[start:], before, span))

    def release(self, holding: Holding) -> None:
        """Give all blocks back; the full ones stay findable, the last ones go first."""
        for key in reversed(holding.shared):
            left = self._holders[key] - 1
            if left:
                self._holders[key] = left
            else:
                del self._holders[key]
                self._idle[key] = None
        self._private -= holding.private
        holding.shared.clear()
        holding.private = 0

    def forget(self) -> None:
        """Drop every idle block."""
        self._idle.clear()
        self.on_change(Cleared())

    def _make_room(self) -> None:
        while self.used + len(self._idle) > self.capacity:
            key, _ = self._idle.popitem(last=False)
            self.on_change(Removed(key))
