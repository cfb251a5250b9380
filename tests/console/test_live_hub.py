"""The hub: one subscription, many viewers, none of whom can hold up the rest."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection

import pytest
from channels.layers import InMemoryChannelLayer

from console.live.access import Pass
from console.live.board import OPERATIONS, Audience
from console.live.hub import GOING_AWAY, SESSION_OVER, Limits, LiveHub, Viewer, ViewerEnded
from scheduler.live import LIVE_GROUP, LiveFrame

from .frames import FrameSource
from .live_client import State, apply_message, decoded, fresh

SOON = 5.0


def entry(user: int = 1, audience: Audience = OPERATIONS, session: str = "s") -> Pass:
    return Pass(session, user, audience)


def join(hub: LiveHub, each: Pass) -> Viewer:
    viewer = hub.join(each)
    assert viewer is not None
    return viewer


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not true():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.005)


async def publish(layer: InMemoryChannelLayer, frame: LiveFrame) -> None:
    await layer.group_send(LIVE_GROUP, {"type": "live.frame", "frame": frame.as_dict()})


async def next_message(hub: LiveHub, viewer: Viewer) -> State:
    async with asyncio.timeout(SOON):
        return decoded(await hub.next_text(viewer))


async def heard(hub: LiveHub, frame: LiveFrame) -> None:
    """Wait until the hub knows of ``frame``."""
    await until(lambda: hub.board.cursor is not None and hub.board.cursor.seq >= frame.seq)


@pytest.fixture
async def hub(layer: InMemoryChannelLayer) -> AsyncIterator[LiveHub]:
    async def all_valid(entries: Collection[Pass]) -> set[Pass]:
        return set(entries)

    hub = LiveHub(layer, all_valid, Limits(snapshot_gap_s=0.0))
    await hub.start()
    yield hub
    await hub.stop()


async def test_frames_reach_viewers_through_one_channel(
    hub: LiveHub, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    viewers = [join(hub, entry(user)) for user in range(30)]
    assert len(layer.groups[LIVE_GROUP]) == 1
    for viewer in viewers:
        assert (await next_message(hub, viewer))["type"] == "snapshot"
    for kind in ("snapshot", "update", "update"):
        await publish(layer, source.next())
        for viewer in viewers:
            message = await next_message(hub, viewer)
            assert (message["type"], message["seq"]) == (kind, source.seq)


async def test_what_comes_while_the_snapshot_is_on_its_way_is_neither_lost_nor_doubled(
    hub: LiveHub, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    for frame in source.take(10):
        await publish(layer, frame)
    await heard(hub, frame)
    viewer = join(hub, entry())
    snapshot = await next_message(hub, viewer)
    for frame in source.take(20):
        await publish(layer, frame)
    await heard(hub, frame)
    update = await next_message(hub, viewer)
    assert (update["since"], update["seq"]) == (snapshot["seq"], 30)
    state = apply_message(apply_message(None, snapshot), update)
    assert state == fresh(hub.board.message(OPERATIONS, None))


async def test_a_slow_viewer_gets_the_newest_and_holds_nothing(
    hub: LiveHub, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    slow, quick = join(hub, entry(1)), join(hub, entry(2))
    await next_message(hub, slow)
    await next_message(hub, quick)
    for frame in source.take(200):
        await publish(layer, frame)
        assert (await next_message(hub, quick))["seq"] == frame.seq
    message = await next_message(hub, slow)
    assert message["seq"] == 200
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await hub.next_text(slow)


async def test_a_viewer_may_ask_for_a_snapshot(hub: LiveHub, layer: InMemoryChannelLayer) -> None:
    source = FrameSource()
    viewer = join(hub, entry())
    await publish(layer, source.next())
    await heard(hub, LiveFrame("e1", 1, 0, {}, [], {}))
    await next_message(hub, viewer)
    hub.resync(viewer)
    assert (await next_message(hub, viewer))["type"] == "snapshot"


async def test_snapshots_asked_for_in_a_row_wait_for_the_next_frame(
    hub: LiveHub, layer: InMemoryChannelLayer
) -> None:
    hub.limits = Limits(snapshot_gap_s=60.0)
    source = FrameSource()
    await publish(layer, source.next())
    viewer = join(hub, entry())
    await next_message(hub, viewer)
    for _ in range(100):
        hub.resync(viewer)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await hub.next_text(viewer)
    await publish(layer, source.next())
    assert (await next_message(hub, viewer))["type"] == "snapshot"


async def test_a_silent_scheduler_is_marked(hub: LiveHub, layer: InMemoryChannelLayer) -> None:
    hub.limits = Limits(silence_s=-1.0)
    await publish(layer, FrameSource().next())
    viewer = join(hub, entry())
    assert (await next_message(hub, viewer))["stale"] is True
    hub.limits = Limits()
    assert (await next_message(hub, join(hub, entry(2))))["stale"] is False


async def test_one_person_has_only_so_many_sockets(hub: LiveHub) -> None:
    viewers = [hub.join(entry(7)) for _ in range(500)]
    accepted = [viewer for viewer in viewers if viewer is not None]
    assert len(accepted) == hub.limits.sockets_per_user == 20
    assert hub.join(entry(8)) is not None
    hub.leave(accepted[0])
    hub.leave(accepted[0])
    assert hub.join(entry(7)) is not None
    assert hub.join(entry(7)) is None


async def test_rechecks_end_those_whose_right_is_gone(layer: InMemoryChannelLayer) -> None:
    asked: list[Collection[Pass]] = []

    async def only_first(entries: Collection[Pass]) -> set[Pass]:
        asked.append(entries)
        return {each for each in entries if each.session_key == "good"}

    hub = LiveHub(layer, only_first, Limits(recheck_s=0.01))
    good, bad = (join(hub, entry(n, session=name)) for n, name in enumerate(("good", "bad")))
    await next_message(hub, good)
    await next_message(hub, bad)
    await hub.start()
    try:
        async with asyncio.timeout(SOON):
            with pytest.raises(ViewerEnded) as ended:
                await hub.next_text(bad)
        assert ended.value.code == SESSION_OVER
        assert not good.ended
        assert len(asked[0]) == 2, "one question for all"
    finally:
        await hub.stop()
    with pytest.raises(ViewerEnded) as ended:
        await hub.next_text(good)
    assert ended.value.code == GOING_AWAY


async def test_what_is_no_frame_is_passed_over(
    hub: LiveHub, layer: InMemoryChannelLayer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong: list[dict[str, object]] = [{}, {"frame": None}, {"frame": {"seq": "x"}}, {"frame": []}]
    for nonsense in wrong:
        await layer.group_send(LIVE_GROUP, {"type": "live.frame", **nonsense})
    frame = FrameSource().next()
    await publish(layer, frame)
    await heard(hub, frame)
    assert caplog.text.count("cannot be read") == 4


class FlakyLayer(InMemoryChannelLayer):
    """Fails to receive until told otherwise, and forgets its groups meanwhile."""

    broken = True

    async def receive(self, channel: str) -> dict[str, object]:
        if self.broken:
            self.groups.clear()
            raise ConnectionError("the layer is away")
        return dict(await super().receive(channel))


async def test_a_layer_that_breaks_and_heals_is_joined_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("console.live.hub.RETRY_S", 0.01)
    layer = FlakyLayer()

    async def all_valid(entries: Collection[Pass]) -> set[Pass]:
        return set(entries)

    hub = LiveHub(layer, all_valid)
    await hub.start()
    try:
        await until(lambda: "interrupted" in caplog.text)
        layer.broken = False
        source = FrameSource()
        async with asyncio.timeout(SOON):
            while hub.board.cursor is None:
                await publish(layer, source.next())
                await asyncio.sleep(0.01)
    finally:
        await hub.stop()
