"""No secret in any log line, whatever way it came in; and the two lines operators grep for."""

import json
import logging
import sys

import pytest

from metering.logs import ConsoleFormatter, JsonFormatter
from metering.redaction import CUT, redact

KEY = "fl_live_" + "Abc9" * 10
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJyaXNrIn0.c2lnbmF0dXJl_-x"
DIGEST = "3f" * 32
REPLICA_TOKEN = "tok-7f3a91c2"

SECRETS = [
    (f"key {KEY} refused", KEY),
    (f"key {KEY[:20]} refused", KEY[:20]),
    (f"fl_mgmt_{'q' * 30}", "q" * 30),
    (f"Authorization: Bearer {REPLICA_TOKEN}", REPLICA_TOKEN),
    (f"authorization=Bearer {REPLICA_TOKEN}", REPLICA_TOKEN),
    (f"{{'Authorization': 'Bearer {REPLICA_TOKEN}', 'Host': 'a'}}", REPLICA_TOKEN),
    (f"[(b'authorization', b'Bearer {REPLICA_TOKEN}')]", REPLICA_TOKEN),
    (f"<CIMultiDict('X-Api-Key': '{REPLICA_TOKEN}')>", REPLICA_TOKEN),
    (f'{{"x-api-key": "{REPLICA_TOKEN}"}}', REPLICA_TOKEN),
    (f"x-tier-credential: {JWT}", JWT),
    (f"Cookie: sessionid={REPLICA_TOKEN}; csrftoken=1", REPLICA_TOKEN),
    (f"bearer {REPLICA_TOKEN} was refused", REPLICA_TOKEN),
    (f"token {JWT}.", JWT),
    (f"token {JWT.rsplit('.', 1)[0]}", JWT.rsplit(".", 1)[0]),
    ("postgresql://fairlane:hunter22@db:5432/x", "hunter22"),
    (f"Key (digest)=(\\x{DIGEST}) already exists", DIGEST),
    ("sk-proj-0123456789abcdef", "0123456789abcdef"),
]


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secrets_are_cut(text: str, secret: str) -> None:
    cut = redact(text)
    assert secret not in cut
    assert CUT in cut
    assert redact(cut) == cut


@pytest.mark.parametrize(
    "text",
    [
        "preempt P2 batch bid=7f3a to serve P0 req=risk-8821 kv_snapshot_saved=true",
        "key fl_live_Ab12 revoked",
        "GET /v1/chat/completions 200 in 12 ms",
        "http://127.0.0.1:9001/metrics",
        "id 0198f3a2-7c1d-7e55-9a01-0123456789ab trace 4bf92f3577b34da6a3ce929d0e0e4736",
    ],
)
def test_plain_text_stays(text: str) -> None:
    assert redact(text) == text


def record(message: str, *arguments: object, level: int = logging.INFO, **extra: object) -> str:
    return lines(message, *arguments, level=level, **extra)[0]


def lines(
    message: str, *arguments: object, level: int = logging.INFO, **extra: object
) -> tuple[str, str]:
    """The same record by both formatters; ``error=`` brings a traceback."""
    error = extra.pop("error", None)
    trouble = (type(error), error, error.__traceback__) if isinstance(error, Exception) else None
    made = logging.getLogger("fairlane.test").makeRecord(
        "fairlane.test", level, "x.py", 1, message, arguments, trouble, extra=extra
    )
    return JsonFormatter().format(made), ConsoleFormatter().format(made)


def test_json_has_time_level_logger_message_and_extras() -> None:
    line = json.loads(record("queued %d", 3, lane="P2", waits={"p95": 1.5}, at=("a", 1)))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "INFO",
        "logger": "fairlane.test",
        "message": "queued 3",
        "lane": "P2",
        "waits": {"p95": 1.5},
        "at": ["a", 1],
    }


def test_the_two_lines_operators_grep_for() -> None:
    preempted = (
        "preempt P2 batch bid=7f3a to serve P0 req=risk-8821"
        " kv_snapshot_saved=true est_remain=120ms gain>cost"
    )
    promoted = "P2 req eval-5532 hit max_wait_ms, promote to P1 once (starvation guard)"
    assert lines(preempted)[1] == f"[INFO] {preempted}"
    assert lines(promoted, level=logging.WARNING)[1] == f"[WARN] {promoted}"


@pytest.mark.parametrize("formatter", [0, 1])
def test_neither_arguments_nor_tracebacks_nor_extras_leak(formatter: int) -> None:
    def replica_call(token: str) -> None:
        raise ConnectionError(f"sent Authorization: Bearer {token} and {KEY}")

    with pytest.raises(ConnectionError) as failed:
        replica_call(REPLICA_TOKEN)
    line = lines(
        "call failed: %s %r",
        failed.value,
        {"Authorization": f"Bearer {REPLICA_TOKEN}"},
        error=failed.value,
        headers={"authorization": REPLICA_TOKEN, "nested": [{"x": KEY}]},
        prompt="my private question",
        token=REPLICA_TOKEN,
    )[formatter]
    assert "ConnectionError" in line
    for secret in (KEY, REPLICA_TOKEN, "my private question"):
        assert secret not in line


def test_a_caller_cannot_forge_a_line() -> None:
    json_line, console_line = lines("unknown model %s", "x\n[INFO] all is well\x1b[2J\u2028y")
    assert "\n" not in console_line
    assert "\x1b" not in console_line
    assert "\n" not in json_line
    assert json.loads(json_line)["message"].startswith("unknown model x\n")


def test_odd_extras_do_not_break_a_line() -> None:
    class Odd:
        def __str__(self) -> str:
            return f"odd {KEY}"

    loop: list[object] = []
    loop.append(loop)
    line = json.loads(record("x", thing=Odd(), loop=loop, number=float("nan"), data=b"\xff"))
    assert KEY not in line["thing"]


def test_the_settings_use_these_formatters() -> None:
    from console.config.settings.logs import LOGGING  # noqa: PLC0415 - reads the environment

    made = LOGGING["formatters"]
    assert isinstance(made, dict)
    assert {entry["()"] for entry in made.values()} == {
        f"{JsonFormatter.__module__}.JsonFormatter",
        f"{ConsoleFormatter.__module__}.ConsoleFormatter",
    }


def test_an_exception_under_debug_shows_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("fairlane.debugging")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        logger.debug(
            "request headers: %s", [(b"Authorization", f"Bearer {REPLICA_TOKEN}".encode())]
        )
        logger.debug("sending", extra={"api_key": KEY, "body": "private"})
    finally:
        logger.removeHandler(handler)
    written = capsys.readouterr().err
    assert written.count("\n") == 2
    for secret in (REPLICA_TOKEN, KEY, "private"):
        assert secret not in written
