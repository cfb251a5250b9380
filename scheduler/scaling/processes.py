"""The driver that runs servers as processes on this machine: each card is one process.

Which programs they may be is fixed here; a file of cards names no commands.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.core.fleet import ReplicaFacts
from scheduler.processes import die_with_parent

from .cards import Card, CardSpec, CardState

log = logging.getLogger(__name__)

# A large model may take its time to load before its server listens.
LISTENS_S = 300.0
STOP_S = 10.0
DRAIN_LOOK_S = 0.2
# What failed is left alone for so long, each time in a row twice as long.
BROKEN_FIRST_S = 5.0
BROKEN_MOST_S = 300.0
ENGINES = {"emulator": "vllm", "llama": "llamacpp"}
ROOT = Path(__file__).resolve().parents[2]


class StartError(Exception):
    """A server that ended, or said nothing, instead of listening."""


@dataclass(eq=False, slots=True)
class Slot:
    """One card and the process on it. ``keep`` is cleared to have it drained."""

    spec: CardSpec
    state: CardState = CardState.IDLE
    url: str = ""
    failures: int = 0
    again_at: float = 0.0
    keep: asyncio.Event = field(default_factory=asyncio.Event)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None

    @property
    def card(self) -> Card:
        """As others see it."""
        spec = self.spec
        facts = ReplicaFacts(
            spec.name,
            self.url,
            ENGINES[spec.run],
            spec.pool,
            spec.slots,
            gpus=spec.gpus,
            kv_tokens=spec.kv_tokens,
            models=dict(spec.models),
        )
        return Card(facts, self.state)

    def may_start(self, now: float) -> bool:
        """Whether nothing is on the card, and it has not failed just now."""
        rested = self.state is CardState.BROKEN and now >= self.again_at
        return self.state is CardState.IDLE or rested


class LocalProcesses:
    """``logs`` is a folder for what the servers say."""

    def __init__(self, cards: Sequence[CardSpec], *, logs: Path) -> None:
        self._slots = {spec.name: Slot(spec) for spec in cards}
        self._logs = logs
        self._changed: Callable[[], None] = lambda: None
        self._running: Callable[[str], int] = lambda name: 0
        self._closing = False

    def attach(self, changed: Callable[[], None], running: Callable[[str], int]) -> None:
        """Whom to tell of changes, and who knows how many requests run on a replica."""
        self._changed, self._running = changed, running

    def cards(self) -> tuple[Card, ...]:
        """All of them."""
        return tuple(slot.card for slot in self._slots.values())

    def start(self, card: str, model: str = "") -> bool:
        """Put a card to use: begin its process, or keep it where it still drains."""
        slot = self._slots.get(card)
        if slot is None or self._closing:
            return False
        if slot.state is CardState.DRAINING:
            slot.leave.clear()
            slot.keep.set()
            self._to(slot, CardState.UP)
            return True
        if not slot.may_start(asyncio.get_running_loop().time()):
            return False
        slot.leave.clear()
        slot.task = asyncio.create_task(self._live(slot), name=f"card {slot.spec.name}")
        self._to(slot, CardState.STARTING)
        return True

    def drain(self, replica: str) -> bool:
        """Give it no more work, and stop it when nothing runs there any more."""
        slot = self._slots.get(replica)
        if slot is None or slot.state is not CardState.UP:
            return False
        slot.keep.clear()
        slot.leave.set()
        self._to(slot, CardState.DRAINING)
        return True

    async def close(self) -> None:
        """End all processes. Whoever hears of it and orders new ones gets none."""
        self._closing = True
        tasks = [slot.task for slot in self._slots.values() if slot.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _to(self, slot: Slot, state: CardState) -> None:
        if slot.state is not state:
            log.info("card %s is %s", slot.spec.name, state.value)
            slot.state = state
            self._changed()

    async def _live(self, slot: Slot) -> None:
        """A card's way from its start to its end."""
        process: asyncio.subprocess.Process | None = None
        try:
            process = await self._spawn(slot)
            slot.url = await _address(process)
            slot.failures = 0
            self._to(slot, CardState.UP)
            await self._serve(slot, process)
        except (StartError, OSError) as error:
            self._broken(slot, str(error))
        finally:
            if process is not None:
                # Nobody may find it in the fleet while it stops.
                await asyncio.shield(_stop(process))
            slot.url, slot.task = "", None
            if slot.state is not CardState.BROKEN:
                self._to(slot, CardState.IDLE)

    async def _serve(self, slot: Slot, process: asyncio.subprocess.Process) -> None:
        """Until it has been drained. Raises StartError when the process ends by itself."""
        ended = asyncio.create_task(_output(process))
        try:
            while True:
                leaving = asyncio.create_task(slot.leave.wait())
                await asyncio.wait((ended, leaving), return_when=asyncio.FIRST_COMPLETED)
                leaving.cancel()
                while slot.leave.is_set() and not ended.done():
                    if not self._running(slot.spec.name):
                        self._to(slot, CardState.STOPPING)
                        return
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(DRAIN_LOOK_S):
                            await slot.keep.wait()
                if ended.done():
                    raise StartError(f"its process has ended ({process.returncode})")
        finally:
            ended.cancel()

    def _broken(self, slot: Slot, why: str) -> None:
        wait = min(BROKEN_FIRST_S * 2**slot.failures, BROKEN_MOST_S)
        slot.failures += 1
        slot.again_at = asyncio.get_running_loop().time() + wait
        log.warning(
            "card %s: %s; left alone for %.0f s, see %s",
            slot.spec.name,
            why,
            wait,
            self._log(slot),
        )
        self._to(slot, CardState.BROKEN)
        # By then it may be tried again.
        asyncio.get_running_loop().call_later(wait, self._rested, slot)

    def _rested(self, slot: Slot) -> None:
        if slot.may_start(asyncio.get_running_loop().time()):
            self._to(slot, CardState.IDLE)

    def _log(self, slot: Slot) -> Path:
        return self._logs / f"{slot.spec.name}.log"

    async def _spawn(self, slot: Slot) -> asyncio.subprocess.Process:
        self._logs.mkdir(parents=True, exist_ok=True)
        with self._log(slot).open("wb") as output:
            return await asyncio.create_subprocess_exec(
                *command(slot.spec),
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=output,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
                # One system call and one comparison, with no lock that another thread holds.
                preexec_fn=die_with_parent(signal.SIGTERM),
            )


def command(spec: CardSpec) -> list[str]:
    """The program of a card, on a free port. The first line that it prints ends in its
    address."""
    common = ["--port", "0", "--slots", str(spec.slots)]
    if spec.run == "llama":
        served = [name for own in dict.fromkeys(spec.models.values()) for name in ("--alias", own)]
        return [sys.executable, "-m", "scheduler.llama", *common, *served, *spec.arguments]
    served = [name for own in dict.fromkeys(spec.models.values()) for name in ("--model", own)]
    kv = [] if spec.kv_tokens is None else ["--kv-tokens", str(spec.kv_tokens)]
    run = [sys.executable, "-m", "scheduler.emulator", "--print-port", *common]
    return [*run, *served, *kv, *spec.arguments]


async def _address(process: asyncio.subprocess.Process) -> str:
    """Where it listens, out of its first line. Raises StartError."""
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LISTENS_S):
            line = await process.stdout.readline()
    except TimeoutError:
        raise StartError(f"its server did not listen within {LISTENS_S:.0f} s") from None
    words = line.split()
    if not line.endswith(b"\n") or not words:
        raise StartError("its server ended before it listened")
    return words[-1].decode("utf-8", "replace")


async def _output(process: asyncio.subprocess.Process) -> None:
    """Read what it still says, so that it never waits for a reader, until it ends."""
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass
    await process.wait()


async def _stop(process: asyncio.subprocess.Process) -> None:
    """End it: politely first, then with all that it has started. Its pipe is read to the end:
    only then does the loop let go of it."""
    with contextlib.suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
    try:
        async with asyncio.timeout(STOP_S):
            await _output(process)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await _output(process)
    await asyncio.sleep(0)
