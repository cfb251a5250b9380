"""Which replicas hold the beginnings of prompts in their prefix caches, as far as can be told.

A prompt that begins as one before it did costs less where that was computed. Engines drop what was
used longest ago, and of one prompt its end before its beginning, when they need the room: so is it
kept here, by replica, in blocks of ``PREFIX_BLOCK`` tokens. A replica's blocks are bounded by the
size of its cache, and all of them together by ``MOST_BLOCKS``. What an engine says of its cache
(``CacheChanged``, ``Finished.cached``) corrects what is believed.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from .ticket import PREFIX_BLOCK

# Blocks remembered of all replicas together: about 190 bytes each, hash included.
MOST_BLOCKS = 500_000
# Tokens that a replica has room for which tells neither the size of its cache nor of its memory.
USUAL_ROOM = 262_144
# Conversations of which is known where they ran last.
MOST_SESSIONS = 10_000
# What is computed again displaces what others need again, and they others' still: a prefix that is
# left behind counts so many times what computing it takes, and no load is worth more than that.
WORTH = 8.0
# Of its cache so much is taken to be in use for prompts after a miss, and after a hit, and no less.
SMALLER, LARGER, LEAST_PART = 0.9, 1.01, 0.05


@dataclass(slots=True)
class Cache:
    """What one replica is believed to hold, ``tokens`` in all. Of each block how many tokens, the
    one used longest ago first: those of the block, and, where a prompt has ended, of what followed
    it that nobody has a name for. By its id what a request without blocks has left."""

    # Of a plain dict the first entry is looked for behind all that were deleted before it.
    blocks: OrderedDict[int | str, int] = field(default_factory=OrderedDict)
    tokens: int = 0


@dataclass(slots=True)
class Prefixes:
    """``caches`` by replica, with ``count`` blocks in all; ``latest``: the replica that had a block
    last; ``sessions``: the replica where a conversation ran last; ``parts`` of their caches are in
    use for prompts, by replica."""

    caches: dict[str, Cache] = field(default_factory=dict)
    latest: dict[int | str, str] = field(default_factory=dict)
    sessions: OrderedDict[str, str] = field(default_factory=OrderedDict)
    parts: dict[str, float] = field(default_factory=dict)
    count: int = 0

    def tokens(self, replica: str, blocks: Sequence[int]) -> int:
        """Tokens at the beginning of a prompt that the replica holds."""
        cache = self.caches.get(replica)
        if cache is None or not blocks or blocks[0] not in cache.blocks:
            return 0
        # Of a prompt its end goes before its beginning, so that what is there has no gaps.
        held, low, high = cache.blocks, 1, len(blocks)
        while low < high:
            middle = (low + high + 1) // 2
            if blocks[middle - 1] in held:
                low = middle
            else:
                high = middle - 1
        return low * PREFIX_BLOCK

    def behind(self, replica: str, blocks: Sequence[int]) -> int:
        """Tokens that the replica holds of what followed the whole prompt when that left it."""
        cache = self.caches.get(replica)
        return cache.blocks.get(blocks[-1], PREFIX_BLOCK) - PREFIX_BLOCK if cache else 0

    def home(self, session: str, blocks: Sequence[int]) -> str:
        """The replica that had most of the prompt last, or the conversation; "": nobody knows."""
        for block in reversed(blocks):
            found = self.latest.get(block)
            if found is not None:
                return found
        return self.sessions.get(session, "") if session else ""

    def ran(self, session: str, replica: str) -> None:
        """A request of the conversation has started on the replica."""
        self.sessions.pop(session, None)
        self.sessions[session] = replica
        if len(self.sessions) > MOST_SESSIONS:
            self.sessions.popitem(last=False)

    def note(self, replica: str, blocks: Sequence[int], room: int, *, rest: int = 0) -> None:
        """The replica uses a prompt: it computes it, or is done with it and leaves so many other
        tokens behind it (``rest``). It has ``room`` for so many tokens in all (0: not known)."""
        cache = self.caches.get(replica)
        if cache is None:
            cache = self.caches[replica] = Cache()
        held, latest = cache.blocks, self.latest
        before, tokens = len(held), cache.tokens
        size = PREFIX_BLOCK + rest
        for block in reversed(blocks):
            tokens += size - held.pop(block, 0)
            held[block] = size
            latest[block] = replica
            size = PREFIX_BLOCK
        cache.tokens = tokens
        self.count += len(held) - before
        self._bound(replica, cache, room)

    def left(self, replica: str, name: str, rest: int, room: int) -> None:
        """A request without blocks has left so many tokens, which nobody will look for."""
        cache = self.caches.get(replica)
        if cache is None or rest <= 0:
            return
        if name not in cache.blocks:
            self.count += 1
        cache.tokens += rest - cache.blocks.pop(name, 0)
        cache.blocks[name] = rest
        self._bound(replica, cache, room)

    def correct(self, replica: str, believed: int, found: int) -> None:
        """Of a prompt so many tokens were ``believed`` to be in the replica's cache, and so many
        ``found``. Where they were not, it has room for less than was thought, and what else was
        used as long ago is gone too."""
        part = self.parts.get(replica, 1.0)
        if found + PREFIX_BLOCK < believed:
            self.parts[replica] = max(LEAST_PART, SMALLER * part)
        elif part < 1.0:
            self.parts[replica] = min(1.0, LARGER * part)

    def evict(self, replica: str, tokens: int | None) -> None:
        """So many tokens have left the replica's cache, those used longest ago; None: all."""
        cache = self.caches.get(replica)
        if tokens is None:
            self.forget(replica)
        elif cache is not None:
            self._evict(replica, cache, tokens)

    def forget(self, replica: str) -> None:
        """The replica's cache is empty: it has begun anew, or is gone."""
        self.parts.pop(replica, None)
        cache = self.caches.pop(replica, None)
        if cache is not None:
            self.count -= len(cache.blocks)
            for block in cache.blocks:
                if self.latest.get(block) == replica:
                    del self.latest[block]

    def _bound(self, replica: str, cache: Cache, room: int) -> None:
        most = (room or USUAL_ROOM) * self.parts.get(replica, 1.0)
        if cache.tokens > most:
            self._evict(replica, cache, cache.tokens - int(most))
        while self.count > MOST_BLOCKS:
            # Whoever has most gives a part of it up: no one replica's share depends on who came
            # first, and the next look is far off.
            name, largest = max(self.caches.items(), key=lambda item: len(item[1].blocks))
            for _ in range(max(self.count - MOST_BLOCKS, len(largest.blocks) // 8)):
                if not largest.blocks:
                    break
                self._drop(name, largest)

    def _evict(self, replica: str, cache: Cache, tokens: int) -> None:
        held = cache.blocks
        while held and tokens > 0:
            block = next(iter(held))
            size = held[block]
            spare = size - PREFIX_BLOCK if isinstance(block, int) else size
            if spare > tokens:
                held[block] = size - tokens
                cache.tokens -= tokens
                return
            tokens -= size
            self._drop(replica, cache)

    def _drop(self, replica: str, cache: Cache) -> None:
        """Forget the block that was used longest ago."""
        block, tokens = cache.blocks.popitem(last=False)
        cache.tokens -= tokens
        self.count -= 1
        if self.latest.get(block) == replica:
            del self.latest[block]
