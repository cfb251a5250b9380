"""Which replicas hold the beginnings of prompts in their prefix caches, as far as can be told.

A prompt that begins as one before it did costs less where that was computed. Engines drop what was
used longest ago, and of one prompt its end before its beginning, when they need the room: so is it
kept here, by replica, in blocks of ``PREFIX_BLOCK`` tokens. A replica's blocks are bounded by the
size of its cache, and all of them together by ``MOST_BLOCKS``. What an engine says of its cache
(``CacheChanged``, ``Finished.cached``) corrects what is believed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .ticket import PREFIX_BLOCK

# Blocks remembered of all replicas together: about 150 bytes each.
MOST_BLOCKS = 500_000
# Of a replica that tells neither the size of its cache nor of its memory.
USUAL_BLOCKS = 4_096
# Conversations of which is known where they ran last.
MOST_SESSIONS = 10_000
# What is computed again displaces what others need again, and they others' still: a prefix that is
# left behind counts so many times what computing it takes, and no load is worth more than that.
WORTH = 8.0
# Of its cache so much is taken to be in use for prompts after a miss, and after a hit, and no less.
SMALLER, LARGER, LEAST_PART = 0.9, 1.01, 0.05


@dataclass(slots=True)
class Prefixes:
    """``held``: by replica its blocks, the one used longest ago first; ``latest``: the replica that
    had a block last; ``sessions``: the replica where a conversation ran last; ``parts`` of their
    caches are in use for prompts, by replica."""

    held: dict[str, dict[int, None]] = field(default_factory=dict)
    latest: dict[int, str] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)

    def tokens(self, replica: str, blocks: Sequence[int]) -> int:
        """Tokens at the beginning of a prompt that the replica holds."""
        held = self.held.get(replica)
        if not held or not blocks or blocks[0] not in held:
            return 0
        # Of a prompt its end goes before its beginning, so that what is there has no gaps.
        low, high = 1, len(blocks)
        while low < high:
            middle = (low + high + 1) // 2
            if blocks[middle - 1] in held:
                low = middle
            else:
                high = middle - 1
        return low * PREFIX_BLOCK

    def home(self, session: str, blocks: Sequence[int]) -> str:
        """The replica that had most of the prompt last, or the conversation; "": nobody knows."""
        for block in reversed(blocks):
            found = self.latest.get(block)
            if found is not None:
                return found
        return self.sessions.get(session, "") if session else ""

    def note(self, replica: str, session: str, blocks: Sequence[int], room: int) -> None:
        """The replica computes such a prompt, of a conversation ("": of none). Its cache has room
        for so many tokens (0: not known)."""
        if session:
            self.sessions.pop(session, None)
            self.sessions[session] = replica
            if len(self.sessions) > MOST_SESSIONS:
                del self.sessions[next(iter(self.sessions))]
        if not blocks:
            return
        held = self.held.setdefault(replica, {})
        for block in reversed(blocks):
            held.pop(block, None)
            held[block] = None
            self.latest[block] = replica
        most = min(room // PREFIX_BLOCK or USUAL_BLOCKS, MOST_BLOCKS // len(self.held))
        self._evict(replica, len(held) - int(most * self.parts.get(replica, 1.0)))

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
        if tokens is None:
            self.forget(replica)
        else:
            self._evict(replica, tokens // PREFIX_BLOCK)

    def forget(self, replica: str) -> None:
        """The replica's cache is empty: it has begun anew, or is gone."""
        self.parts.pop(replica, None)
        for block in self.held.pop(replica, ()):
            if self.latest.get(block) == replica:
                del self.latest[block]

    def _evict(self, replica: str, count: int) -> None:
        held = self.held.get(replica)
        while held and count > 0:
            count -= 1
            self._drop(replica, held, next(iter(held)))

    def _drop(self, replica: str, held: dict[int, None], block: int) -> None:
        if block in held:
            del held[block]
            if self.latest.get(block) == replica:
                del self.latest[block]
