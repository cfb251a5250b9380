"""Tells the scheduler what requests were like before this process began."""

import asyncio
import logging
from collections.abc import Callable

from .core.events import Recalled
from .ports import Recall

log = logging.getLogger(__name__)

# Between one try and the next (s). After the last one requests have long taught it more.
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)


class Priming:
    """``tell`` hears of what is recalled, once for each ``run``. Nothing waits for it: whoever
    comes before is served by what is known without."""

    def __init__(self, recall: Recall, tell: Callable[[Recalled], None]) -> None:
        self._recall = recall
        self._tell = tell

    async def run(self) -> None:
        """Read as soon as that can be done, tell, and return; or give up."""
        for pause in (*PAUSES_S, None):
            try:
                samples = await asyncio.to_thread(self._recall.samples)
            except OSError as error:
                again = "given up" if pause is None else "tried again"
                log.warning("what requests were like before cannot be read, %s: %s", again, error)
                await asyncio.sleep(pause or 0.0)
                continue
            if samples:
                log.info("estimates begin with %d requests of before", len(samples))
                self._tell(Recalled(tuple(samples)))
            return
