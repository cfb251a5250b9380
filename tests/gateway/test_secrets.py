"""Keys, replica tokens and callers' texts: in no log, error, metric or row, at any log level."""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from metering.core.keys import digest
from metering.logs import ConsoleFormatter, JsonFormatter
from scheduler.core.fleet import ModelFacts

from .harness import KEY, LOW_KEY, Gate, chat_body, furnished, gate, limits, replica, unbroken
from .stub import DONE, Seen, Wire, chat_answer, delta, stub, usage_event

EXPIRED = "fl_live_expiredexpiredexpiredexpired"
REVOKED = "fl_live_revokedrevokedrevokedrevoked"
TOKEN = "replica-secret-token-8fc1"
PROMPT = "the patient's diagnosis is confidential"
COMPLETION = "take two tablets of confidentialol"


class Everything(logging.Handler):
    """Every record of every logger, as both formatters write it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []
        self._formatters = (JsonFormatter(), ConsoleFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's lines."""
        self.lines += [formatter.format(record) for formatter in self._formatters]

    @property
    def text(self) -> str:
        """All that was written."""
        return "\n".join(self.lines)


@pytest.fixture
def logged() -> Iterator[Everything]:
    """LOG_LEVEL=DEBUG, and then some: libraries that production keeps quiet speak too."""
    handler = Everything()
    quiet = [logging.getLogger(name) for name in ("asyncio", "httpx", "httpcore", "aiohttp")]
    root = logging.getLogger()
    before = [(logger, logger.level) for logger in (root, *quiet)]
    for logger, _ in before:
        logger.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    for logger, level in before:
        logger.setLevel(level)


def forms(key: str, pepper: bytes) -> list[str]:
    """A key, and its hashes in the ways that they could be shown."""
    raw = key.encode("utf-8", "surrogatepass")
    hashes = [digest(key, pepper), hashlib.sha256(raw).digest()]
    shown = [key] if key.isascii() else []
    for value in hashes:
        shown += [value.hex(), base64.b64encode(value).decode(), repr(value)]
    return shown


BAD_KEYS = [
    EXPIRED,
    REVOKED,
    "fl_live_unknownunknownunknownunknown",
    "fl_live_",
    "fl_live_" + "x" * 5000,
    "fl_live_ÿþýüéè-and-more",
    "fl_mgmt_ownerkeyownerkeyownerkey",
    "sk-proj-1234567890abcdefghij",
    KEY[:-1],
    KEY + "x",
    KEY.upper(),
    " ",
    "",
]


async def test_f01_whatever_is_wrong_with_a_key_the_answer_is_the_same(logged: Everything) -> None:
    """F01: expired, revoked, unknown, malformed, of another kind: one body, and neither the
    key nor a hash of it in any answer, log line, metric or row."""
    memory = furnished()
    memory.key(EXPIRED, "owner", expires=1)
    memory.key(REVOKED, "owner")
    async with stub() as server:
        memory.replica(replica(server.url))
        async with gate(memory) as gateway:
            assert (await gateway.chat(key=REVOKED)).status_code == 200
            del memory.keys[digest(REVOKED, memory.pepper)]
            memory.tell("access")
            await gateway.until(lambda: gateway.runtime.gateway.access.version == 1)
            answers = set()
            shown = logged.text
            for key in BAD_KEYS:
                for header in (f"Authorization: Bearer {key}", f"X-Api-Key: {key}"):
                    async with gateway.raw() as client:
                        await client.post("", chat_body(), header)
                        answer = await client.answer()
                    assert answer.status == 401
                    answers.add((answer.body, answer.headers["x-fairlane-reason"]))
                    shown += answer.body.decode() + str(answer.headers)
            assert len(answers) == 1
            shown += logged.text + (await gateway.client.get("/metrics")).text
            shown += str(gateway.usage.rows) + str(gateway.audit.seen)
            for key in BAD_KEYS:
                for form in forms(key, memory.pepper) if len(key) > 12 else []:
                    assert form not in shown
            assert len(gateway.usage.rows) == 1


async def misbehave(seen: Seen, wire: Wire) -> None:
    """As the prompt says."""
    kind = seen.prompt.partition("|")[0]
    if kind == "fail":
        await wire.json({"error": {"message": f"{COMPLETION} {seen.headers}"}}, 500)
    elif kind == "refuse":
        await wire.json({"error": {"message": "no", "code": 400}}, 400)
    elif kind == "reset":
        await wire.begin_stream()
        await wire.chunk(delta(COMPLETION))
        wire.reset()
    elif kind == "nonsense":
        await wire.send(f"{COMPLETION}\r\n\r\n".encode())
        wire.hang_up()
    elif kind == "stall":
        await seen.closed.wait()
    elif seen.json.get("stream"):
        await wire.stream(delta(COMPLETION), delta(None, finish="stop"), usage_event(), DONE)
    else:
        await wire.json(chat_answer(COMPLETION))


async def one_of_each(gateway: Gate) -> None:
    """Good, failing, timed-out, cancelled and misunderstood calls."""
    for kind in ("good", "fail", "refuse", "reset", "nonsense", "stall"):
        for stream in (False, True):
            await gateway.chat(f"{kind}|{PROMPT}", stream=stream)
    async with gateway.raw() as client:
        await client.post(KEY, chat_body(f"stall|{PROMPT}", stream=True))
        await gateway.until(lambda: gateway.running == 1)
    async with gateway.raw() as client:
        await client.post(KEY, f'{{"model":"chat","messages":[{PROMPT}'.encode())
        await client.answer()


async def test_f02_debug_logs_hold_no_secret_and_no_text(
    logged: Everything, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F02: good, failing, timed-out and cancelled calls, a step that fails, a fault of our
    own: neither the client's key, nor the replica's token, nor what was asked or answered."""
    token = tmp_path / "token"
    token.write_text(TOKEN, encoding="utf-8")
    asyncio.get_running_loop().set_debug(True)
    async with stub(misbehave) as server:
        facts = replica(server.url, token_file=str(token), slots=2)
        policy = unbroken(limits(first_byte_ms=300))
        async with gate(furnished(facts, policy=policy)) as gateway:
            gateway.memory.model(ModelFacts("elsewhere"))
            await one_of_each(gateway)
            gateway.tell_policy(limits())
            await gateway.until(lambda: gateway.runtime.gateway.policy_version == 1)
            assert server.seen[0].header("authorization") == f"Bearer {TOKEN}"

            def fault(*_: object) -> None:
                raise KeyError(f"Bearer {KEY}")

            with monkeypatch.context() as patch:
                patch.setattr("scheduler.gateway.relay.read_plain", fault)
                assert (await gateway.chat(f"good|{PROMPT}")).status_code == 500
            with monkeypatch.context() as patch:
                patch.setattr("scheduler.actor.step", fault)
                assert (await gateway.chat(f"good|{PROMPT}", key=LOW_KEY)).status_code == 500
            log = logging.getLogger("scheduler.gateway.app")
            log.debug("sent %s with %s", f"Authorization: Bearer {KEY}", {"x-api-key": LOW_KEY})
            metrics = (await gateway.client.get("/metrics")).text
            rows = str(gateway.usage.rows) + str(gateway.audit.seen)
            await gateway.rest()
        shown = logged.text + metrics + rows
        pepper = gateway.memory.pepper
    assert "attempt 1 of" in shown
    assert "scheduler step failed" in shown
    for secret in (TOKEN, PROMPT, COMPLETION, *forms(KEY, pepper), *forms(LOW_KEY, pepper)):
        assert secret not in shown
