"""What one publisher's events come to."""

from collections.abc import Sequence

from .wire import Removed, Stored, length, read

FRAMES = 3
SEQUENCE_BYTES = 8
MOST_BLOCK_TOKENS = 1 << 20
# Layers that keep a window or a state of the prompt lose blocks all the time; what of it need not
# be computed again is told by those that keep all.
PARTIAL = ("sliding", "window", "swa", "mamba", "local")


class Tally:
    """Tokens that have left the GPU's cache since they were last ``taken``.

    Batches are numbered. Where one is missing, or cannot be read, it may have said anything: then
    all counts as gone.
    """

    def __init__(self) -> None:
        self.evicted = 0
        self.all_gone = False
        # Why the last batch counts as lost, empty where it does not.
        self.problem = ""
        self._next: int | None = None
        self._block_tokens = 0
        self._unsized = 0
        self._group: object = None

    def add(self, frames: Sequence[bytes]) -> None:
        """One message: topic, number, batch. Never raises."""
        self.problem = ""
        if len(frames) != FRAMES or len(frames[1]) != SEQUENCE_BYTES:
            self._lose("no batch of KV cache events")
            return
        number = int.from_bytes(frames[1], "big")
        if self._next is not None and number != self._next:
            self.all_gone = True
        self._next = number + 1
        try:
            for event in read(frames[2]):
                if isinstance(event, Stored):
                    self._stored(event)
                elif isinstance(event, Removed):
                    self._removed(event)
                else:
                    self.all_gone = True
        except (ValueError, RecursionError) as error:
            self._lose(str(error))

    def take(self) -> tuple[bool, int | None]:
        """Whether there is anything to tell, and it: tokens, None for all. Counts start anew."""
        told = self.all_gone or self.evicted > 0
        found = None if self.all_gone else self.evicted
        self.all_gone, self.evicted = False, 0
        return told, found

    def _stored(self, event: Stored) -> None:
        """How big blocks are, and which layers' blocks count."""
        if not _on_gpu(event.medium) or not 0 < event.block_size <= MOST_BLOCK_TOKENS:
            return
        kind = event.kv_cache_spec_kind
        if isinstance(kind, str) and any(word in kind for word in PARTIAL):
            return
        if not self._block_tokens:
            self._group, self._block_tokens = event.group_idx, event.block_size
            self.evicted += self._unsized * event.block_size
        elif event.group_idx == self._group:
            self._block_tokens = event.block_size

    def _removed(self, event: Removed) -> None:
        if not _on_gpu(event.medium):
            return
        blocks = length(memoryview(event.block_hashes))
        if not self._block_tokens:
            self._unsized += blocks
        elif event.group_idx == self._group:
            self.evicted += blocks * self._block_tokens

    def _lose(self, problem: str) -> None:
        self.all_gone, self.problem = True, problem


def _on_gpu(medium: object) -> bool:
    """Whether a block is in the tier that prompts are computed in, the only one where none is
    named."""
    return not isinstance(medium, str) or medium.upper() == "GPU"
