"""What callers get for bad requests: an OpenAI-shaped 4xx at once, nothing queued, no slot."""

import asyncio
import json

import pytest

from scheduler.testing import Memory

from .harness import KEY, Gate, chat_body, furnished, gate, replica
from .raw import CHAT, Answer
from .stub import Held, Stub

COMPLETIONS = "/v1/completions"
EMBEDDINGS = "/v1/embeddings"
BRACKETS = 100_000


async def post(
    running: Gate, body: bytes, *headers: str, path: str = CHAT, key: str = KEY
) -> Answer:
    """One request as bytes."""
    async with running.raw() as client:
        await client.post(key, body, *headers, path=path)
        return await client.answer()


MESSAGES = b'"messages":[{"role":"user","content":"x"}]'
CHAT_FAULTS: list[tuple[bytes, str | None]] = [
    (b"", None),
    (b"   ", None),
    (b"{", None),
    (b'{"model":"chat",' + MESSAGES, None),
    (b'{"model":"chat",' + MESSAGES + b"}}", None),
    (b'{"model":"chat",' + MESSAGES + b"} trailing", None),
    (b"{'model':'chat'}", None),
    (b'{"model":"chat",' + MESSAGES + b',"temperature":NaN}', None),
    (b'\xef\xbb\xbf{"model":"chat",' + MESSAGES + b"}", None),
    (b'{"model":"chat"\x00}', None),
    (b'{"model":"chat","messages":[{"role":"user","content":"\xff\xfe"}]}', None),
    (b'{"model":"chat","messages":[{"role":"user","content":"\xed\xa0\x80"}]}', None),
    (b'{"model":"chat",' + MESSAGES + b',"user":"\xc3"}', None),
    (b'{"model":"chat",' + MESSAGES + b',"\xc0\xaf":1}', None),
    (b"[]", None),
    (b'[{"model":"chat"}]', None),
    (b"null", None),
    (b'"chat"', None),
    (b"17", None),
    (b"model=chat&messages=x", None),
    (b"[" * BRACKETS + b"]" * BRACKETS, None),
    (b'{"model":"chat","messages":' + b"[" * BRACKETS + b"]" * BRACKETS + b"}", None),
    (b'{"x":' * BRACKETS + b"1" + b"}" * BRACKETS, None),
    (b'{"model":"chat",' + MESSAGES + b',"x":' + b"[" * BRACKETS, None),
    (b"{%s}" % MESSAGES, "model"),
    (b'{"model":"",%s}' % MESSAGES, "model"),
    (b'{"model":null,%s}' % MESSAGES, "model"),
    (b'{"model":7,%s}' % MESSAGES, "model"),
    (b'{"model":["chat"],%s}' % MESSAGES, "model"),
    (b'{"model":"\\ud800",%s}' % MESSAGES, None),
    (b'{"model":"\xff",%s}' % MESSAGES, None),
    (b'{"model":"chat"}', "messages"),
    (b'{"model":"chat","messages":null}', "messages"),
    (b'{"model":"chat","messages":"hello"}', "messages"),
    (b'{"model":"chat","messages":{"role":"user"}}', "messages"),
]
FIELD_FAULTS = [
    ("max_tokens", b"-1"),
    ("max_tokens", b"-123456789012345678901234567890"),
    ("max_tokens", b'"5"'),
    ("max_tokens", b"1.5"),
    ("max_tokens", b"1e400"),
    ("max_tokens", b"true"),
    ("max_tokens", b"[1]"),
    ("max_completion_tokens", b"-1"),
    ("n", b"-1"),
    ("n", b'"two"'),
    ("best_of", b"-2"),
    ("stream", b'"yes"'),
    ("stream", b"1"),
    ("stream_options", b'"usage"'),
    ("stream_options", b"[]"),
    ("include_usage", b"7"),
    ("service_tier", b"7"),
]


def field_body(name: str, value: bytes) -> bytes:
    if name == "include_usage":
        return b'{"model":"chat",%s,"stream_options":{"include_usage":%s}}' % (MESSAGES, value)
    return b'{"model":"chat",%s,"%s":%s}' % (MESSAGES, name.encode(), value)


def check_refusal(answer: Answer, status: int = 400, param: str | None = None) -> None:
    """OpenAI's shape, short, and naming the field."""
    assert answer.status == status, answer
    assert answer.headers["content-type"] == "application/json"
    assert len(answer.body) < 1000
    error = answer.error
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert error["message"]


async def test_malformed_bodies_are_refused_at_once(running: Gate, engine: Stub) -> None:
    """Not JSON, no object, nested 100,000 deep, or a required field missing or of another
    type: named in the answer, and one row each that cost nothing."""
    for body, param in CHAT_FAULTS:
        check_refusal(await post(running, body), param=param)
    for name, value in FIELD_FAULTS:
        named = "include_usage" if name == "include_usage" else name
        check_refusal(await post(running, field_body(name, value)), param=named)
    count = len(CHAT_FAULTS) + len(FIELD_FAULTS)
    rows = await running.rows(count)
    assert {(row.status, row.dispatched, row.lane) for row in rows} == {("client_error", 0, "")}
    assert not engine.seen
    assert running.runtime.scheduler.state.sequence < 10


async def test_each_endpoint_names_what_it_needs(running: Gate, engine: Stub) -> None:
    """``prompt`` for completions, ``input`` for embeddings."""
    check_refusal(await post(running, b'{"model":"chat"}', path=COMPLETIONS), param="prompt")
    check_refusal(await post(running, b'{"model":"chat"}', path=EMBEDDINGS), param="input")
    check_refusal(
        await post(running, b'{"model":"chat","prompt":"x","max_tokens":-5}', path=COMPLETIONS),
        param="max_tokens",
    )
    assert not engine.seen


@pytest.mark.parametrize(
    "kind",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"],
)
async def test_another_content_type_is_refused_before_the_body_is_read(
    kind: str, running: Gate
) -> None:
    """By the head alone: the body need not even come."""
    async with running.raw() as client:
        await client.begin(KEY, f"Content-Type: {kind}", "Content-Length: 1000000")
        check_refusal(await client.answer(), 415)


@pytest.mark.parametrize(
    "kind",
    ["application/json", "application/json; charset=utf-8", "Application/JSON", "", "a/b+json"],
)
async def test_json_by_any_of_its_names_is_taken(kind: str, running: Gate) -> None:
    """And a missing type is taken for it."""
    headers = [f"Content-Type: {kind}"] if kind else []
    answer = await post(running, json.dumps(chat_body()).encode(), *headers)
    assert answer.status == 200


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate", "zstd", "gzip, identity", "x"])
async def test_packed_bodies_are_refused_unread(encoding: str, running: Gate) -> None:
    """Whatever they might unpack to."""
    async with running.raw() as client:
        await client.begin(KEY, f"Content-Encoding: {encoding}", "Content-Length: 1000000")
        check_refusal(await client.answer(), 415)


async def test_unknown_models_and_forbidden_ones(running: Gate, memory: Memory) -> None:
    """404 names the model; one that exists and is not the caller's is 403."""
    check_refusal(await post(running, b'{"model":"gpt-9",%s}' % MESSAGES), 404, "model")
    huge = b'{"model":"%s",%s}' % (b"m" * 200_000, MESSAGES)
    check_refusal(await post(running, huge), 404, "model")
    nul = b'{"model":"a\\u0000b",%s}' % MESSAGES
    check_refusal(await post(running, nul), 404, "model")
    memory.change_business("owner", models=frozenset({"elsewhere"}))
    await running.until(lambda: running.runtime.gateway.access.version == 1)
    answer = await post(running, b'{"model":"chat",%s}' % MESSAGES)
    assert answer.status == 403
    assert answer.error["code"] == "model_not_allowed"
    assert answer.error["type"] == "permission_error"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/v1/nothing", 404, "not_found"),
        ("POST", "/v1/nothing", 404, "not_found"),
        ("GET", "/v1/", 404, "not_found"),
        ("POST", "/v1/chat/completions/", 404, "not_found"),
        ("GET", "/v2/nothing", 404, "not_found"),
        ("POST", "/v1/chat/../chat/completions", 404, "not_found"),
        ("GET", "/v1/chat/completions", 405, "method_not_allowed"),
        ("PUT", "/v1/embeddings", 405, "method_not_allowed"),
        ("DELETE", "/v1/completions", 405, "method_not_allowed"),
        ("PATCH", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/v1/models", 405, "method_not_allowed"),
        ("POST", "/healthz", 405, "method_not_allowed"),
        ("POST", "/metrics", 405, "method_not_allowed"),
        ("OPTIONS", "/v1/chat/completions", 405, "method_not_allowed"),
    ],
)
async def test_unknown_paths_and_methods(
    method: str, path: str, status: int, code: str, running: Gate
) -> None:
    """In OpenAI's shape too, with or without a key."""
    for key in (KEY, ""):
        async with running.raw() as client:
            await client.begin(key, "Content-Length: 0", path=path, method=method)
            answer = await client.answer()
            assert answer.status == status
            assert answer.error["code"] == code


async def test_models_are_listed_and_retrieved(running: Gate, memory: Memory) -> None:
    """Those the caller may use, by their public names, slashes and spaces included."""
    headers = running.headers()
    listed = (await running.client.get("/v1/models", headers=headers)).json()
    assert [entry["id"] for entry in listed["data"]] == ["chat", "elsewhere", "org/big model"]
    assert listed["object"] == "list"
    for path in ("/v1/models/org/big%20model", "/v1/models/org%2Fbig%20model"):
        entry = (await running.client.get(path, headers=headers)).json()
        assert entry == {
            "id": "org/big model",
            "object": "model",
            "created": 0,
            "owned_by": "fairlane",
        }
    missing = await running.client.get("/v1/models/gpt-9", headers=headers)
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "model_not_found"
    memory.change_business("owner", models=frozenset({"chat"}))
    await running.until(lambda: running.runtime.gateway.access.version == 1)
    listed = (await running.client.get("/v1/models", headers=headers)).json()
    assert [entry["id"] for entry in listed["data"]] == ["chat"]
    assert (await running.client.get("/v1/models/elsewhere", headers=headers)).status_code == 404


ODD = (
    b'{ "model" : "chat",\r\n\t"messages":[ {"role":"user","content":"\\u4f60 \xe4\xbd\xa0"} ],'
    b'"seed":123456789012345678901234567890, "x_float":1e400, "x_neg": -0.0, "x_exp":1E+2,'
    b'"guided_json":{"b":1,"a":[ ]}, "x_dup":{"k":1,"k":2}, "logit_bias":{"50256":-100},'
    b'"min_p":0.05,"top_k":-1, "vllm_xargs":{"deep":[[[[[{"n":1.000000000000000001}]]]]]},'
    b'"response_format":{"type":"json_schema","json_schema":{"name":"s"}},'
    b'"metadata":{"api_base":"http://169.254.169.254/"} }'
)


async def test_a_body_in_which_nothing_must_change_goes_on_as_it_came(
    running: Gate, engine: Stub
) -> None:
    """Byte for byte: spacing, escapes, numbers that no float holds, engines' own fields."""
    answer = await post(running, ODD)
    assert answer.status == 200
    assert engine.seen[0].body == ODD


@pytest.mark.parametrize("change", ["model", "priority", "stream"])
async def test_where_something_must_change_the_rest_stays(change: str, engine: Stub) -> None:
    """The values of all other fields byte for byte, in their order."""
    served = "org/Model-7B" if change == "model" else "chat"
    added = {"model": b"", "priority": b',"priority":-100}', "stream": b',"stream":true}'}[change]
    body = ODD[:-2] + added if added else ODD
    async with gate(furnished(replica(engine.url, served=served))) as running:
        answer = await post(running, body)
        assert answer.status == 200
        sent = engine.seen[0].body
        expected = json.loads(ODD)
        expected["model"] = served
        if change == "stream":
            expected |= {"stream": True, "stream_options": {"include_usage": True}}
        assert json.loads(sent) == expected
        assert list(json.loads(sent)) == list(expected)
        for piece in (
            b'[ {"role":"user","content":"\\u4f60 \xe4\xbd\xa0"} ]',
            b"123456789012345678901234567890",
            b"1e400",
            b"-0.0",
            b"1E+2",
            b'{"b":1,"a":[ ]}',
            b'{"k":1,"k":2}',
            b"1.000000000000000001",
        ):
            assert piece in sent


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"secret","model":"chat",%s}',
        b'{"mod\\u0065l":"secret","model":"chat",%s}',
        b'{"model":"secret","\\u006dodel":"chat",%s}',
        b'{"model":"secret",%s,"model":"chat"}',
    ],
)
async def test_the_model_that_was_checked_is_the_one_that_is_sent(
    body: bytes, running: Gate, engine: Stub
) -> None:
    """A key given twice, in any spelling: an engine that takes the first must not see
    another value than the one that was checked, the last."""
    assert (await post(running, body % MESSAGES)).status == 200
    sent = engine.seen[0].body
    assert b"secret" not in sent
    assert json.loads(sent)["model"] == "chat"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("max_tokens", (b"4000", b"2")),
        ("max_completion_tokens", (b"4000", b"7")),
        ("n", (b"8", b"1")),
        ("stream", (b"true", b"false")),
        ("temperature", (b"0.1", b"0.2")),
    ],
)
@pytest.mark.parametrize("spaced", [False, True], ids=["compact", "spaced"])
async def test_what_was_reserved_is_what_is_sent(
    name: str, values: tuple[bytes, bytes], *, spaced: bool, running: Gate, engine: Stub
) -> None:
    """Each field stands in the body once, with the value that was looked at."""
    first, last = (b'"%s":%s' % (name.encode(), value) for value in values)
    body = b'{"model":"chat",%s,%s,%s}' % (first, MESSAGES, last)
    escaped = body.replace(b'"' + name.encode(), b'"\\u%04x' % ord(name[0]) + name[1:].encode(), 1)
    for each in (body, escaped, body.replace(last, last + b",%s" % last)):
        engine.seen.clear()
        sent = each.replace(b",", b" ,\n ") if spaced else each
        assert (await post(running, sent)).status == 200
        pairs = json.loads(engine.seen[0].body, object_pairs_hook=list)
        assert [value for key, value in pairs if key == name] == [json.loads(values[1])]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "n"])
async def test_whole_numbers_may_be_written_as_floats(
    name: str, running: Gate, engine: Stub
) -> None:
    """Some clients do, and not every engine takes them: a whole number goes on."""
    for value in (b"2.0", b"2e0", b"20E-1", b"1e2", b"-0.0"):
        engine.seen.clear()
        assert (await post(running, field_body(name, value))).status == 200
        sent = json.loads(engine.seen[0].body)[name]
        assert (type(sent), sent) == (int, float(value))
    for value in (b"2.5", b"-1.0", b"1e-1"):
        check_refusal(await post(running, field_body(name, value)), param=name)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/models", "/v1/models/chat"])
async def test_probes_may_ask_for_the_head_alone(path: str, running: Gate) -> None:
    headers = running.headers()
    got = await running.client.get(path, headers=headers)
    head = await running.client.head(path, headers=headers)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == got.headers["content-length"]
    assert (await running.client.head("/v1/embeddings", headers=headers)).status_code == 405


async def test_bad_requests_pass_by_a_full_house(engine: Stub, running: Gate) -> None:
    """With all slots taken and a queue behind them, a bad request is still refused at once."""
    held = Held()
    engine.answer = held
    calls = [asyncio.create_task(running.chat(f"c{n}")) for n in range(6)]
    await running.until(lambda: running.running == 4 and running.queued == 2)
    for body, param in CHAT_FAULTS[:4]:
        check_refusal(await post(running, body), param=param)
    assert (running.running, running.queued) == (4, 2)
    held.finish(*(f"c{n}" for n in range(6)))
    assert {(await call).status_code for call in calls} == {200}
