"""What a caller's headers say, and what the gateway's own say back."""

import uuid
from dataclasses import replace

import httpx
import pytest

from metering.core.facts import BusinessFacts
from scheduler.core.policy import Policy

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, chat_body, furnished, gate, replica
from .raw import CHAT
from .stub import Seen, Wire, stub

OWN = ("x-request-id", "x-lane", "x-priority-level", "x-queue-wait-ms", "x-replica")


async def test_answers_say_who_served_them_when_and_how() -> None:
    """The contract's headers, on plain answers, streams and an engine's refusals alike."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        for stream in (False, True):
            response = await gateway.chat(stream=stream, headers={"x-request-id": "mine-1"})
            found = response.headers
            assert found.keys() >= set(OWN)
            assert uuid.UUID(found["x-request-id"]).version == 7
            assert found["x-client-request-id"] == "mine-1"
            assert (found["x-lane"], found["x-priority-level"]) == ("P1", "3")
            assert found["x-replica"] == "r1"
            assert int(found["x-queue-wait-ms"]) >= 0

        async def refuse(seen: Seen, wire: Wire) -> None:
            await wire.json({"error": {"message": "no"}}, 400)

        server.answer = refuse
        assert (await gateway.chat()).headers.keys() >= set(OWN)
        rows = await gateway.rows(3)
        assert [row.client_request_id for row in rows] == ["mine-1", "mine-1", ""]
        assert len({row.id for row in rows}) == 3


async def test_the_request_id_of_an_answer_is_that_of_its_usage_row() -> None:
    """Also on refusals: it is what a caller names to support. The engine gets the attempt's."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        served = (await gateway.chat()).headers["x-request-id"]
        refused = (await gateway.chat(model="nothing")).headers["x-request-id"]
        assert [row.id for row in await gateway.rows(2)] == [served, refused]
        assert server.seen[0].header("x-request-id") == f"{served}-1"


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/chat", CHAT, "/v1/embeddings"])
async def test_answers_to_strangers_have_an_id_too(path: str) -> None:
    """There is no row for them, and still something to name."""
    async with gate(furnished()) as gateway:
        for method in ("GET", "POST", "DELETE"):
            response = await gateway.client.request(method, path)
            if response.status_code == 401:
                assert uuid.UUID(response.headers["x-request-id"]).version == 7
                assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    ("sent", "echoed"),
    [
        ("a" * 128, "a" * 128),
        ("a" * 500, "a" * 128),
        ("café", None),
        ("tab\there", None),
        ("", None),
        ("quote\"'<>&", "quote\"'<>&"),
    ],
)
async def test_a_clients_request_id_is_echoed_where_it_is_harmless(
    sent: str, echoed: str | None
) -> None:
    """Bounded, printable, ASCII; anything else is dropped, not refused."""
    async with (
        stub() as server,
        gate(furnished(replica(server.url))) as gateway,
        gateway.raw() as client,
    ):
        await client.post(KEY, chat_body(), f"X-Request-Id: {sent}")
        answer = await client.answer()
        assert answer.status == 200
        assert answer.headers.get("x-client-request-id") == echoed
        assert (await gateway.row()).client_request_id == (echoed or "")


@pytest.fixture
async def engine():  # type: ignore[no-untyped-def]
    """A gateway before one polite replica."""
    async with stub() as server, gate(furnished(replica(server.url))) as gateway:
        yield gateway


async def lane_and_level(gateway: Gate, key: str, headers: dict[str, str]) -> tuple[str, int]:
    """Where a call with these headers was put."""
    response = await gateway.chat(key=key, headers=headers)
    assert response.status_code == 200, response.text
    return response.headers["x-lane"], int(response.headers["x-priority-level"])


@pytest.mark.parametrize(
    ("key", "claim", "expected"),
    [
        # As classified: P0 at level 0, P1 at level 3, P2 at level 8.
        (URGENT_KEY, "", ("P0", 0)),
        (KEY, "", ("P1", 3)),
        (LOW_KEY, "", ("P2", 8)),
        # Lower is always allowed.
        (URGENT_KEY, "P1", ("P1", 3)),
        (URGENT_KEY, "P2", ("P2", 7)),
        (URGENT_KEY, "9", ("P2", 9)),
        (URGENT_KEY, "1", ("P0", 1)),
        (KEY, "P2", ("P2", 7)),
        (KEY, "6", ("P1", 6)),
        (LOW_KEY, "P2", ("P2", 8)),
        (LOW_KEY, "9", ("P2", 9)),
        # Higher never is.
        (KEY, "P0", ("P1", 3)),
        (KEY, "0", ("P1", 3)),
        (LOW_KEY, "P0", ("P2", 7)),
        (LOW_KEY, "0", ("P2", 7)),
        (LOW_KEY, "P1", ("P2", 8)),
        # RFC 9218 and nonsense claim nothing.
        (KEY, "u=0", ("P1", 3)),
        (KEY, "u=3, i", ("P1", 3)),
        (KEY, "u=7;i", ("P1", 3)),
        (KEY, "-100", ("P1", 3)),
        (KEY, "10", ("P1", 3)),
        (KEY, "P3", ("P1", 3)),
        (KEY, "urgent", ("P1", 3)),
        (KEY, "٣", ("P1", 3)),
    ],
)
async def test_claims_lower_urgency_and_never_raise_it(
    key: str, claim: str, expected: tuple[str, int], engine: Gate
) -> None:
    """However the header is spelled."""
    for name in ("priority", "X-Priority", "PRIORITY", "x-PrIoRiTy"):
        value = claim.encode() if not claim.isascii() else claim
        headers = {name: value} if claim else {}
        assert await lane_and_level(engine, key, headers) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tier", "expected"),
    [
        ("auto", ("P0", 0)),
        ("default", ("P0", 0)),
        ("flex", ("P2", 7)),
        ("priority", ("P0", 0)),
        (None, ("P0", 0)),
        ("something new", ("P0", 0)),
    ],
)
async def test_a_service_tier_is_a_claim(
    tier: str | None, expected: tuple[str, int], engine: Gate
) -> None:
    """And the header, where both are sent, holds."""
    response = await engine.chat(key=URGENT_KEY, service_tier=tier)
    assert (response.headers["x-lane"], int(response.headers["x-priority-level"])) == expected
    response = await engine.chat(key=URGENT_KEY, service_tier=tier, headers={"priority": "P1"})
    assert response.headers["x-lane"] == "P1"


@pytest.mark.parametrize(("realtime", "level"), [("low", 6), ("medium", 3), ("high", 3)])
async def test_a_callers_word_on_realtime_counts_where_it_asks_for_less(
    realtime: str, level: int, engine: Gate
) -> None:
    """The key's business is medium by default."""
    found = await lane_and_level(engine, KEY, {"X-Realtime": realtime})
    assert found == ("P1" if level < 7 else "P2", level)


@pytest.mark.parametrize(
    ("tag", "status"),
    [("owner", 200), ("team-a", 200), ("", 200), ("urgent", 403), ("team-b", 403), ("Owner", 403)],
)
async def test_a_biz_tag_must_name_the_callers_own_business(
    tag: str, status: int, engine: Gate
) -> None:
    """Or one of its tags: otherwise whoever wrote it is mistaken about the key."""
    for name in ("biz-tag", "X-Biz-Tag"):
        response = await engine.chat(headers={name: tag})
        assert response.status_code == status
        if status == 403:
            assert response.json()["error"]["code"] == "biz_tag_mismatch"
            assert response.headers["x-fairlane-reason"] == "biz_tag_mismatch"


async def test_an_escalation_is_refused_where_the_policy_says_so() -> None:
    """403 priority_not_allowed, nothing queued; what is within the ceiling is served."""
    policy = Policy()
    strict = replace(policy.classification, on_escalation="refuse")
    policy = replace(policy, classification=strict)
    async with (
        stub() as server,
        gate(furnished(replica(server.url), policy=policy)) as gateway,
    ):
        response = await gateway.chat(headers={"priority": "P0"})
        assert response.status_code == 403
        assert response.json()["error"]["code"] == "priority_not_allowed"
        assert not server.seen
        assert (await gateway.chat(headers={"priority": "P2"})).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        {"authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer {KEY}"},
        {"Authorization": f"BEARER  {KEY}"},
        {"x-api-key": KEY},
        {"api-key": KEY},
        {"authorization": f"Bearer {KEY}", "x-api-key": KEY},
    ],
)
async def test_a_key_is_taken_from_either_header(given: dict[str, str], engine: Gate) -> None:
    """As OpenAI's and as Anthropic's clients send it."""
    response = await engine.client.post(CHAT, json=chat_body(), headers=given)
    assert response.status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        [("authorization", f"Bearer {KEY}"), ("x-api-key", LOW_KEY)],
        [("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {LOW_KEY}")],
        [("x-api-key", KEY), ("x-api-key", LOW_KEY)],
        [("x-authorization", f"Bearer {KEY}")],
        [("authorization", KEY)],
        [("authorization", f"Basic {KEY}")],
        [("cookie", f"api_key={KEY}")],
    ],
)
async def test_two_keys_are_none_and_a_key_elsewhere_is_none(
    given: list[tuple[str, str]], engine: Gate
) -> None:
    """Whoever checks one and whoever uses the other must not be two."""
    response = await engine.client.post(CHAT, json=chat_body(), headers=httpx.Headers(given))
    assert response.status_code == 401


async def test_the_key_ceiling_binds_below_the_businesss() -> None:
    """A key may be held lower than its business."""
    memory = furnished()
    memory.key("fl_live_heldlowheldlowheldlow", "urgent", ceiling=2)
    memory.business(BusinessFacts("vip", grade="vip", ceiling=0), "fl_live_vipvipvipvipvipvip")
    async with stub() as server:
        memory.replica(replica(server.url))
        async with gate(memory) as gateway:
            key = "fl_live_heldlowheldlowheldlow"
            assert await lane_and_level(gateway, key, {}) == ("P2", 7)
            assert await lane_and_level(gateway, key, {"priority": "P0"}) == ("P2", 7)
