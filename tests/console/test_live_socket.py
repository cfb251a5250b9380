"""The live WebSocket: who is let in (G02), what they get, and what remains when they go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from channels.layers import InMemoryChannelLayer
from channels.testing import WebsocketCommunicator
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from console.live.access import admit, still_valid
from console.live.board import OPERATIONS
from console.live.consumers import LiveConsumer
from console.live.hub import Limits, LiveHub
from console.models import User
from metering.models import Membership
from metering.services.keys import create_key
from scheduler.live import LIVE_GROUP

from .conftest import People, person
from .frames import FrameSource
from .live_client import State, apply_message, decoded, fresh

pytestmark = pytest.mark.django_db(transaction=True)

HOST = b"testserver"
Headers = list[tuple[bytes, bytes]]


def session_of(user: User, **data: str) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    for name, value in data.items():
        session[name] = value
    session.save()
    assert session.session_key is not None
    return session.session_key


def headers(session: str = "", *, origin: bytes | None = b"http://testserver") -> Headers:
    found = [(b"host", HOST)]
    if origin is not None:
        found.append((b"origin", origin))
    if session:
        found.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={session}; other=1".encode()))
    return found


@pytest.fixture
async def hub(layer: InMemoryChannelLayer) -> AsyncIterator[LiveHub]:
    hub = LiveHub(layer, database_sync_to_async(still_valid), Limits(snapshot_gap_s=0.0))
    await hub.start()
    yield hub
    await hub.stop()
    # Queries ran in a thread of their own, whose connection would keep the database in use.
    await sync_to_async(connections.close_all)()


Connect = Callable[..., WebsocketCommunicator]


@pytest.fixture
def socket(hub: LiveHub) -> Connect:
    """A socket with these headers, not yet connected."""

    def make(given: Headers, path: str = "/ws/live/") -> WebsocketCommunicator:
        return WebsocketCommunicator(LiveConsumer.as_asgi(hub=hub), path, given)

    return make


async def refused(communicator: WebsocketCommunicator, hub: LiveHub) -> bool:
    """Whether the handshake was refused, with no frame, and left nothing."""
    connected, _code = await communicator.connect(timeout=10)
    silent = await communicator.receive_nothing(timeout=0.05)
    await communicator.wait()
    return not connected and silent and hub.viewers == 0


async def text_of(communicator: WebsocketCommunicator) -> str:
    text = await communicator.receive_from(timeout=10)
    assert isinstance(text, str)
    return text


async def receive(communicator: WebsocketCommunicator) -> State:
    return decoded(await text_of(communicator))


async def publish(layer: InMemoryChannelLayer, source: FrameSource) -> None:
    await layer.group_send(LIVE_GROUP, {"type": "live.frame", "frame": source.next().as_dict()})


@sync_to_async
def a_session(people: People, name: str, **data: str) -> str:
    return session_of(people.named(name), **data)


async def test_an_operator_gets_a_snapshot_and_then_what_is_new(
    people: People, hub: LiveHub, socket: Connect, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    for _ in range(5):
        await publish(layer, source)
    communicator = socket(headers(await a_session(people, "operator")))
    assert (await communicator.connect(timeout=10))[0]
    state = apply_message(None, await receive(communicator))
    while state is not None and state["seq"] < 12:
        await publish(layer, source)
        state = apply_message(state, await receive(communicator))
    assert state is not None
    assert state["now"]["view"] == "operations"
    assert state == fresh(hub.board.message(OPERATIONS, None))
    await communicator.disconnect()
    assert hub.viewers == 0


@pytest.mark.parametrize("name", ["owner", "colleague", "outsider"])
async def test_members_get_their_own_business_whatever_they_ask_for(
    people: People, socket: Connect, layer: InMemoryChannelLayer, name: str
) -> None:
    own, other = ("beta", "alpha") if name == "outsider" else ("alpha", "beta")
    source = FrameSource()
    communicator = socket(
        headers(await a_session(people, name, business=other)),
        f"/ws/live/?business={other}&group=live&view=operations",
    )
    assert (await communicator.connect(timeout=10))[0]
    told = [await text_of(communicator)]
    for asked in (
        f'{{"type": "subscribe", "group": "{other}"}}',
        f'{{"type": "resync", "business": "{other}"}}',
        '{"type": "live.frame"}',
        "not json",
        "x" * 100_000,
    ):
        await communicator.send_to(text_data=asked)
        await communicator.send_to(bytes_data=b"\x00\xff")
        await publish(layer, source)
        told.append(await text_of(communicator))
    for text in told:
        assert other not in text
        assert "card-" not in text
    last = decoded(told[-1])
    assert last["now"]["business"] == own
    await communicator.disconnect()


async def test_a_member_of_two_gets_the_one_they_chose(
    people: People, socket: Connect, layer: InMemoryChannelLayer
) -> None:
    await Membership.objects.acreate(user=people.owner, business=people.beta, role="member")
    await publish(layer, FrameSource())
    for chosen in ("alpha", "beta"):
        communicator = socket(headers(await a_session(people, "owner", business=chosen)))
        assert (await communicator.connect(timeout=10))[0]
        assert (await receive(communicator))["now"]["business"] == chosen
        await communicator.disconnect()


async def test_a_page_that_asks_gets_a_fresh_snapshot(
    people: People, socket: Connect, layer: InMemoryChannelLayer
) -> None:
    source = FrameSource()
    await publish(layer, source)
    communicator = socket(headers(await a_session(people, "operator")))
    await communicator.connect(timeout=10)
    first = await receive(communicator)
    await communicator.send_to(text_data='{"type": "resync"}')
    assert await receive(communicator) == first
    await communicator.disconnect()


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"",
        b"null",
        b"http://elsewhere.example",
        b"http://testserver.elsewhere.example",
        b"http://testserver:8001",
        b"http://user@testserver",
        b"ftp://testserver",
        b"https://testserver@elsewhere.example",
        b"testserver",
    ],
)
async def test_other_origins_are_refused(
    people: People, hub: LiveHub, socket: Connect, origin: bytes | None
) -> None:
    session = await a_session(people, "operator")
    assert await refused(socket(headers(session, origin=origin)), hub)


@pytest.mark.parametrize(
    "origin", [b"http://testserver:80", b"https://TESTSERVER", b"https://testserver:443"]
)
async def test_the_same_origin_is_the_same_however_it_is_written(
    people: People, socket: Connect, origin: bytes
) -> None:
    communicator = socket(headers(await a_session(people, "operator"), origin=origin))
    assert (await communicator.connect(timeout=10))[0]
    await communicator.disconnect()


async def test_a_host_that_is_not_ours_is_refused(
    people: People, hub: LiveHub, socket: Connect
) -> None:
    given = headers(await a_session(people, "operator"), origin=b"http://rebound.example")
    given[0] = (b"host", b"rebound.example")
    assert await refused(socket(given), hub)


async def test_strangers_are_refused(people: People, hub: LiveHub, socket: Connect) -> None:
    assert await refused(socket(headers()), hub)
    for session in ("nonsense", "a" * 32, "'; drop table", "\x00"):
        assert await refused(socket(headers(session)), hub)


async def test_an_api_key_is_no_session(people: People, hub: LiveHub, socket: Connect) -> None:
    _row, secret = await sync_to_async(create_key)(people.alpha, "app", actor=people.owner)
    key = secret.encode()
    for extra in ((b"authorization", b"Bearer " + key), (b"x-api-key", key)):
        assert await refused(socket([*headers(), extra]), hub)
    assert await refused(socket(headers(secret)), hub)
    for query in (f"token={secret}", f"api_key={secret}", "sessionid=x"):
        assert await refused(socket(headers(), f"/ws/live/?{query}"), hub)


async def test_a_session_key_in_the_address_counts_for_nothing(
    people: People, hub: LiveHub, socket: Connect
) -> None:
    session = await a_session(people, "operator")
    assert await refused(socket(headers(), f"/ws/live/?sessionid={session}"), hub)


async def test_roles_without_a_live_view_are_refused(
    people: People, hub: LiveHub, socket: Connect
) -> None:
    assert await refused(socket(headers(await a_session(people, "finance"))), hub)
    nobody = await sync_to_async(person)("nobody")
    assert await refused(socket(headers(await sync_to_async(session_of)(nobody))), hub)


async def test_sessions_that_have_ended_are_refused(
    people: People, hub: LiveHub, socket: Connect
) -> None:
    session = await a_session(people, "operator")
    past = timezone.now() - timedelta(seconds=1)
    await Session.objects.filter(session_key=session).aupdate(expire_date=past)
    assert await refused(socket(headers(session)), hub)

    session = await a_session(people, "operator")
    people.operator.set_password("another one altogether")
    await people.operator.asave()
    assert await refused(socket(headers(session)), hub)

    session = await a_session(people, "operator")
    people.operator.is_active = False
    await people.operator.asave()
    assert await refused(socket(headers(session)), hub)


async def test_one_person_opens_only_so_many(people: People, hub: LiveHub, socket: Connect) -> None:
    session = await a_session(people, "operator")
    communicators = [socket(headers(session)) for _ in range(60)]
    results = await asyncio.gather(*(each.connect(timeout=30) for each in communicators))
    accepted = [
        each for each, (connected, _) in zip(communicators, results, strict=True) if connected
    ]
    assert len(accepted) == hub.viewers == 20
    other = socket(headers(await a_session(people, "admin")))
    assert (await other.connect(timeout=10))[0]
    for each in (*accepted, other):
        await each.disconnect()
    assert hub.viewers == 0


@pytest.mark.parametrize("change", ["logout", "inactive", "role", "membership", "password"])
async def test_an_open_socket_ends_with_its_right(
    people: People, hub: LiveHub, socket: Connect, change: str
) -> None:
    session = await a_session(people, "owner")
    communicator = socket(headers(session))
    stays = socket(headers(await a_session(people, "outsider")))
    for each in (communicator, stays):
        assert (await each.connect(timeout=10))[0]
        await receive(each)
    await hub.recheck()
    assert hub.viewers == 2

    if change == "logout":
        await Session.objects.filter(session_key=session).adelete()
    elif change == "membership":
        await Membership.objects.filter(user=people.owner).adelete()
    else:
        if change == "inactive":
            people.owner.is_active = False
        elif change == "role":
            people.owner.role = User.Role.OPERATOR
        else:
            people.owner.set_password("another one altogether")
        await people.owner.asave()
    await hub.recheck()
    assert await communicator.receive_output(timeout=10) == {
        "type": "websocket.close",
        "code": 4401,
    }
    await communicator.wait()
    assert hub.viewers == 1
    await stays.disconnect()


def test_a_recheck_asks_the_same_few_questions_for_any_number(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    sessions = [
        session_of(people.named("owner" if number % 2 else "operator")) for number in range(12)
    ]
    entries = {entry for session in sessions if (entry := admit(session)) is not None}
    assert len(entries) == 12
    with django_assert_num_queries(3):
        assert still_valid(entries) == entries
