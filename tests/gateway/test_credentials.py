"""Tier credentials at the gateway: beside a key, as the bearer, and every way to be none."""

import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from metering.core.facts import AccessSnapshot
from scheduler.gateway.credentials import MOST_KNOWN, CredentialVerifier
from scheduler.gateway.errors import GatewayError
from scheduler.testing import Memory

from .harness import KEY, LOW_KEY, URGENT_KEY, Gate, furnished, gate, replica
from .signer import SECOND, Signer, jti_of
from .stub import Stub, stub


@pytest.fixture
async def engine() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


@pytest.fixture
def memory(engine: Stub) -> Memory:
    return furnished(replica(engine.url))


@pytest.fixture
def signer(memory: Memory) -> Signer:
    return Signer(memory)


@pytest.fixture
async def running(memory: Memory, signer: Signer) -> AsyncIterator[Gate]:
    async with gate(memory) as found:
        yield found


def reload(running: Gate) -> None:
    """What an announced change does, at once."""
    running.runtime.gateway.access = running.memory.access()


async def test_beside_a_key_it_lowers_the_ceiling(running: Gate, signer: Signer) -> None:
    token = signer.issue("urgent", ceiling="P1")
    reload(running)
    plain = await running.chat(key=URGENT_KEY)
    assert plain.headers["x-lane"] == "P0"
    held = await running.chat(key=URGENT_KEY, headers={"x-tier-credential": token})
    assert (held.status_code, held.headers["x-lane"]) == (200, "P1")
    rows = await running.rows(2)
    assert (rows[1].credential, rows[1].key_prefix) == (jti_of(token), URGENT_KEY[:12])


async def test_it_never_raises_the_ceiling_of_business_or_key(
    running: Gate, signer: Signer
) -> None:
    token = signer.issue("low", ceiling="P0")
    running.memory.key("fl_live_narrowkeynarrowkeynarrowkey", "urgent", ceiling=2)
    other = signer.issue("urgent", ceiling="P0")
    reload(running)
    low = await running.chat(key=LOW_KEY, headers={"X-Tier-Credential": token, "priority": "P0"})
    assert low.headers["x-lane"] == "P2"
    narrow = await running.chat(
        key="fl_live_narrowkeynarrowkeynarrowkey", headers={"tier-credential": other}
    )
    assert narrow.headers["x-lane"] == "P2"


async def test_as_the_bearer_it_is_the_identity(running: Gate, signer: Signer) -> None:
    token = signer.issue("urgent", ceiling="P1", models={"chat"})
    reload(running)
    answer = await running.chat(key=token)
    assert (answer.status_code, answer.headers["x-lane"]) == (200, "P1")
    by_key_header = await running.client.get("/v1/models", headers={"x-api-key": token})
    assert [entry["id"] for entry in by_key_header.json()["data"]] == ["chat"]
    row = (await running.rows(1))[0]
    assert (row.business, row.key_prefix, row.credential) == ("urgent", "", jti_of(token))


async def test_the_grade_is_the_credential_s(running: Gate, signer: Signer) -> None:
    plain = await running.chat()
    as_vip = await running.chat(headers={"x-tier-credential": ""})
    assert plain.headers["x-priority-level"] == as_vip.headers["x-priority-level"] == "3"
    basic = signer.issue("owner", grade="basic", ceiling="P1")
    reload(running)
    lower = await running.chat(headers={"x-tier-credential": basic})
    assert lower.headers["x-priority-level"] == "4"


async def test_its_models_and_no_others(running: Gate, signer: Signer) -> None:
    token = signer.issue("owner", ceiling="P1", models={"rank"})
    reload(running)
    for headers in ({"x-tier-credential": token}, {"authorization": f"Bearer {token}"}):
        refused = await running.chat(headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")


async def test_revoked_within_the_next_snapshot(running: Gate, signer: Signer) -> None:
    token = signer.issue()
    reload(running)
    assert (await running.chat(key=token)).status_code == 200
    running.memory.credentials.clear()
    running.memory.tell("access")
    await running.until(lambda: not running.runtime.gateway.access.credentials)
    assert (await running.chat(key=token)).status_code == 401


def flipped(token: str) -> str:
    """One bit of the signature changed, the text still well formed."""
    head, _, signature = token.rpartition(".")
    raw = bytearray(base64.urlsafe_b64decode(signature + "=="))
    raw[10] ^= 1
    return f"{head}.{base64.urlsafe_b64encode(raw).rstrip(b'=').decode()}"


def claimed(token: str, **said: object) -> str:
    """Claims changed under the old signature."""
    head, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    text = json.dumps({**claims, **said}).encode()
    return f"{head}.{base64.urlsafe_b64encode(text).rstrip(b'=').decode()}.{signature}"


def unsigned(signer: Signer) -> str:
    claims = jwt.decode(signer.issue(), options={"verify_signature": False})
    return jwt.encode(claims, "", algorithm="none", headers={"kid": signer.kid})


def by_hmac(signer: Signer) -> str:
    """The public key taken for a shared secret."""
    claims = jwt.decode(signer.issue(), options={"verify_signature": False})
    secret = signer.public + b"\0" * 32
    return jwt.encode(claims, secret, algorithm="HS256", headers={"kid": signer.kid})


def foreign(signer: Signer) -> str:
    """Another installation's, whose key we don't have; ours is named all the same."""
    stranger = Signer(Memory())
    return stranger.issue(headers={"kid": signer.kid})


def self_certified(signer: Signer) -> str:
    """It brings the key that verifies it along."""
    private = Ed25519PrivateKey.generate()
    x = base64.urlsafe_b64encode(private.public_key().public_bytes_raw()).rstrip(b"=").decode()
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": x}
    claims = jwt.decode(signer.issue(), options={"verify_signature": False})
    headers = {
        "kid": signer.kid,
        "jwk": jwk,
        "jku": "http://127.0.0.1:1/jwks.json",
        "x5u": "http://127.0.0.1:1/chain.pem",
    }
    return jwt.encode(claims, private, algorithm="EdDSA", headers=headers)


BAD: dict[str, Callable[[Signer], str]] = {
    "changed signature": lambda signer: flipped(signer.issue()),
    "changed ceiling": lambda signer: claimed(signer.issue("low", ceiling="P2"), ceiling="P0"),
    "changed business": lambda signer: claimed(signer.issue("low"), sub="urgent"),
    "alg none": unsigned,
    "HS256 under the public key": by_hmac,
    "foreign": foreign,
    "brings its own key": self_certified,
    "unknown kid": lambda signer: signer.issue(headers={"kid": "nobody"}),
    "no kid": lambda signer: signer.issue(headers={"kid": ""}),
    "critical header": lambda signer: signer.issue(headers={"crit": ["exp2"], "exp2": 1}),
    "revoked or never issued": lambda signer: signer.issue(known=False),
    "expired": lambda signer: signer.issue(starts=-3600, ends=0),
    "not yet valid": lambda signer: signer.issue(starts=60),
    "wrong audience": lambda signer: signer.issue(aud="another"),
    "audience among others": lambda signer: signer.issue(aud=["fairlane-gateway", "x"]),
    "wrong issuer": lambda signer: signer.issue(iss="another"),
    "of no business": lambda signer: signer.issue("nobody"),
    "another business's row": lambda signer: signer.issue("low", sub="urgent"),
    "too long": lambda signer: signer.issue(pad="x" * 9000),
    "no token": lambda signer: "abc",
    "dots": lambda signer: "..",
    "nested": lambda signer: base64.urlsafe_b64encode(b"[" * 3000).decode() + ".e30.e30",
}


@pytest.mark.parametrize("kind", BAD)
async def test_everything_else_is_the_same_401(kind: str, running: Gate, signer: Signer) -> None:
    token = BAD[kind](signer)
    reload(running)
    body = {"model": "chat", "messages": []}
    expected = await running.chat(key="fl_live_unknown")
    assert expected.status_code == 401
    for headers in (
        {"authorization": f"Bearer {token}"},
        {"x-api-key": token},
        {"authorization": f"Bearer {URGENT_KEY}", "x-tier-credential": token},
    ):
        answer = await running.client.post("/v1/chat/completions", json=body, headers=headers)
        assert (answer.status_code, answer.content) == (401, expected.content)
        assert answer.headers["www-authenticate"] == "Bearer"
    assert not running.usage.rows


@pytest.mark.parametrize("key", [KEY, "fl_live_unknown", ""])
async def test_key_and_credential_must_name_the_same_business(
    key: str, running: Gate, signer: Signer
) -> None:
    token = signer.issue("urgent")
    reload(running)
    headers = {"x-tier-credential": token} | ({"x-api-key": key} if key else {})
    answer = await running.client.get("/v1/models", headers=headers)
    assert answer.status_code == 401


async def test_two_that_differ_are_none(running: Gate, signer: Signer) -> None:
    first, second = signer.issue("urgent"), signer.issue("urgent")
    reload(running)
    bearer = ("authorization", f"Bearer {first}")
    twice = [
        [bearer, ("x-tier-credential", second)],
        [bearer, ("x-api-key", second)],
        [("x-api-key", URGENT_KEY), ("x-tier-credential", first), ("tier-credential", second)],
    ]
    for headers in twice:
        assert (await running.client.get("/v1/models", headers=headers)).status_code == 401
    same = [bearer, ("x-tier-credential", first)]
    assert (await running.client.get("/v1/models", headers=same)).status_code == 200


async def test_the_published_keys_verify_offline(running: Gate, signer: Signer) -> None:
    token = signer.issue("urgent", ceiling="P1")
    reload(running)
    published = await running.client.get("/.well-known/jwks.json")
    assert published.headers["content-type"] == "application/json"
    key = jwt.PyJWKSet.from_json(published.text)[jwt.get_unverified_header(token)["kid"]]
    said = jwt.decode(
        token, key, algorithms=["EdDSA"], audience="fairlane-gateway", issuer="fairlane"
    )
    assert (said["sub"], said["ceiling"]) == ("urgent", "P1")


async def test_no_token_reaches_the_replica(running: Gate, signer: Signer, engine: Stub) -> None:
    token = signer.issue("urgent")
    reload(running)
    await running.chat(key=token, headers={"x-tier-credential": token})
    assert token not in json.dumps([seen.headers for seen in engine.seen])


def snapshot(signer: Signer) -> AccessSnapshot:
    return signer.memory.access()


def test_a_known_token_costs_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    signer, verifier = Signer(Memory()), CredentialVerifier()
    token = signer.issue()
    access, now = snapshot(signer), time.time_ns()
    facts = verifier.verify(token, access, now)

    def decode(*args: object, **kwargs: object) -> None:
        raise AssertionError("verified again")

    monkeypatch.setattr(jwt, "decode", decode)
    assert verifier.verify(token, access, now) is facts
    # Whatever changes afterwards is seen all the same.
    for later, then in ((access, now + 3601 * SECOND), (replace(access, credentials={}), now)):
        with pytest.raises(GatewayError):
            verifier.verify(token, later, then)
    with pytest.raises(GatewayError):
        verifier.verify(token, replace(access, signing_keys={}), now)


def test_what_is_remembered_is_bounded() -> None:
    signer, verifier = Signer(Memory()), CredentialVerifier()
    tokens = [signer.issue() for _ in range(MOST_KNOWN + 10)]
    access, now = snapshot(signer), time.time_ns()
    for token in tokens:
        verifier.verify(token, access, now)
        verifier.verify(tokens[0], access, now)
    assert len(verifier._known) == MOST_KNOWN
    for index in range(100):
        with pytest.raises(GatewayError):
            verifier.verify(f"a.b.{index}", access, now)
    assert len(verifier._known) == MOST_KNOWN
