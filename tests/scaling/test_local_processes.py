"""Cards put to use and taken out again: real processes behind a real gateway."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.core.fleet import PoolFacts, ReplicaFacts
from scheduler.scaling import CardSpec, CardState, NoScaler
from scheduler.scaling.cards import Card
from scheduler.scaling.processes import LocalProcesses
from tests.gateway.harness import LOW_KEY, Gate, furnished, gate
from tests.gateway.test_resume import one_answer
from tests.support.engines import emulator_process

pytestmark = pytest.mark.timeout(120)

PATIENCE_S = 30.0
QUICK = ("--step-base-ms", "10", "--step-per-running-ms", "0.1")


def spare(name: str, *arguments: str, models: dict[str, str] | None = None) -> CardSpec:
    """A card of two slots in the pool of the tests."""
    served = models or {"chat": "chat"}
    return CardSpec(name, "pool", "emulator", 2, models=served, arguments=(*QUICK, *arguments))


def replica_of(url: str, name: str) -> ReplicaFacts:
    """A replica of the fleet's own, of two slots in the pool of the tests."""
    return ReplicaFacts(name, url, "vllm", "pool", 2, models={"chat": "chat"})


class Site:
    """A gateway with cards and perhaps one replica of its own."""

    def __init__(self, gateway: Gate, cards: LocalProcesses) -> None:
        self.gateway = gateway
        self.cards = cards
        # The whole run's emulator is a child of the same process.
        self._others = set(_servers())

    def state(self, name: str = "spare-1") -> CardState:
        """Where a card is."""
        return next(card.state for card in self.cards.cards() if card.facts.name == name)

    async def reach(self, state: CardState, name: str = "spare-1") -> None:
        """Wait until it is there."""
        await self.gateway.until(lambda: self.state(name) is state, PATIENCE_S)

    async def ready(self, name: str = "spare-1") -> None:
        """Wait until requests may go there."""
        replicas = self.gateway.runtime.scheduler.state.replicas
        await self.gateway.until(lambda: name in replicas and replicas[name].serving(), PATIENCE_S)

    @property
    def pid(self) -> int:
        """The process of the only server that came since."""
        (found,) = set(_servers()) - self._others
        return found


def _servers() -> list[int]:
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(c) for c in children if "scheduler.emulator" in _command(int(c))]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


@contextlib.asynccontextmanager
async def site(folder: Path, *specs: CardSpec) -> AsyncIterator[Site]:
    """The gateway runs until the block ends, and so do the cards."""
    cards = LocalProcesses(specs, logs=folder)
    memory = furnished()
    memory.pools["pool"] = PoolFacts("pool", False, frozenset({0, 1, 2}))
    async with gate(memory, scaler=cards) as gateway:
        yield Site(gateway, cards)


async def test_a_card_comes_into_service_and_leaves_it_with_no_request_lost(tmp_path: Path) -> None:
    """Idle, it is no replica. In use it serves. Drained, it gets nothing more, finishes what
    runs there, and its process ends."""
    async with site(tmp_path, spare("spare-1")) as there:
        gateway = there.gateway
        assert (await gateway.chat()).status_code == 503
        assert there.cards.start("spare-1")
        assert there.state() is CardState.STARTING
        assert not there.cards.start("spare-1")
        await there.ready()
        pid = there.pid
        long = asyncio.create_task(
            gateway.streamed(
                "long",
                key=LOW_KEY,
                max_tokens=80,
                ignore_eos=True,
                stream_options={"include_usage": True},
            )
        )
        await gateway.until(lambda: gateway.running == 1)
        assert there.cards.drain("spare-1")
        assert there.state() is CardState.DRAINING
        assert (await gateway.chat()).headers["x-fairlane-reason"] == "no_capacity"
        assert there.state() is CardState.DRAINING
        assert one_answer(await long, "long", 80)["completion_tokens"] == 80
        await there.reach(CardState.IDLE)
        assert not _command(pid)
        assert not gateway.runtime.scheduler.state.replicas
        # And again: another process under the same name.
        assert there.cards.start("spare-1")
        await there.ready()
        assert (await gateway.chat(max_tokens=2)).status_code == 200
        assert gateway.runtime.health.watches["spare-1"].generation == 2


async def test_a_card_that_is_still_draining_is_kept(tmp_path: Path) -> None:
    """Its server runs: nothing is quicker."""
    async with site(tmp_path, spare("spare-1"), spare("spare-2")) as there:
        gateway = there.gateway
        assert there.cards.start("spare-1")
        await there.ready()
        pid = there.pid
        running = asyncio.create_task(
            gateway.chat("x", key=LOW_KEY, max_tokens=120, ignore_eos=True)
        )
        await gateway.until(lambda: gateway.running == 1)
        assert there.cards.drain("spare-1")
        assert there.cards.start("spare-1")
        assert there.state() is CardState.UP
        assert there.state("spare-2") is CardState.IDLE
        assert (await running).status_code == 200
        assert (await gateway.chat(max_tokens=2)).status_code == 200
        assert there.pid == pid


async def test_a_card_that_there_is_not_is_not_started(tmp_path: Path) -> None:
    async with site(tmp_path, spare("spare-1"), spare("spare-2")) as there:
        assert not there.cards.start("nothing")
        assert there.cards.start("spare-2", "chat")
        assert there.state() is CardState.IDLE
        await there.ready("spare-2")
        assert (await there.gateway.chat(max_tokens=2)).headers["x-replica"] == "spare-2"


async def test_a_server_that_dies_is_out_and_left_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.scaling.processes.BROKEN_FIRST_S", 1.5)
    async with site(tmp_path, spare("spare-1")) as there:
        there.cards.start("spare-1")
        await there.ready()
        os.kill(there.pid, signal.SIGKILL)
        await there.reach(CardState.BROKEN)
        assert not there.cards.start("spare-1")
        assert not there.gateway.runtime.scheduler.state.replicas
        await there.reach(CardState.IDLE)
        assert there.cards.start("spare-1")
        await there.ready()


async def test_a_server_that_does_not_start_is_broken_and_says_where_to_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path, spare("spare-1", "--no-such-option")) as there:
        assert there.cards.start("spare-1")
        await there.reach(CardState.BROKEN)
        log = tmp_path / "spare-1.log"
        assert str(log) in caplog.text
        assert "no-such-option" in log.read_text()


async def test_names_of_the_fleet_come_first(tmp_path: Path) -> None:
    """A card cannot take the place of a replica that people have named."""
    with emulator_process(model="chat") as own:
        cards = LocalProcesses([spare("r1")], logs=tmp_path)
        facts = ReplicaFacts("r1", own.url, "vllm", "pool", 4, models={"chat": "chat"})
        async with gate(furnished(facts), scaler=cards) as gateway:
            there = Site(gateway, cards)
            cards.start("r1")
            await there.reach(CardState.UP, "r1")
            assert gateway.runtime.health.watches["r1"].facts.url == own.url


async def test_all_ends_with_the_gateway(tmp_path: Path) -> None:
    async with site(tmp_path, spare("spare-1")) as there:
        there.cards.start("spare-1")
        await there.ready()
        pid = there.pid
    assert not _command(pid)


def test_without_a_driver_there_is_no_card() -> None:
    none = NoScaler()
    cards: tuple[Card, ...] = none.cards()
    assert (cards, none.start("r1"), none.drain("r1")) == ((), False, False)
