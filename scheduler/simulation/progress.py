"""A progress bar on a terminal, nothing anywhere else."""

import sys
import time
from types import TracebackType
from typing import Self, TextIO

WIDTH = 40
REFRESH_S = 0.1


class Progress:
    """Shows a share of work that is done, and about how long the rest will take."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._shown = self._stream.isatty()
        self._began = time.monotonic()
        self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, share: float) -> None:
        """Show that ``share`` (0-1) is done."""
        now = time.monotonic()
        if not self._shown or now - self._last < REFRESH_S:
            return
        self._last = now
        full = round(WIDTH * min(max(share, 0.0), 1.0))
        left = (now - self._began) * (1 / share - 1) if share > 0.01 else 0.0
        rest = f" {left:.0f} s left" if left else ""
        bar = "#" * full + "." * (WIDTH - full)
        self._stream.write(f"\r[{bar}] {share:4.0%}{rest}\x1b[K")
        self._stream.flush()
