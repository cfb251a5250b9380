"""Public model names outside, served names inside (D11), and where calls may go (F05)."""

import json
from dataclasses import replace

import pytest
from django.conf import settings

from scheduler.core.events import ReplicaChanged
from scheduler.core.fleet import ModelFacts, PoolFacts
from scheduler.gateway.naming import hide, hide_in_text, model_renamer

from .harness import KEY, Gate, furnished, gate, replica
from .raw import CHAT
from .stub import DONE, Held, Seen, Wire, chat_answer, delta, event, stub, usage_event

SERVED = "org/Model-7B"
PUBLIC = "chat"


def embeddings(model: str) -> dict[str, object]:
    data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
    usage = {"prompt_tokens": 2, "total_tokens": 2}
    return {"object": "list", "data": data, "model": model, "usage": usage}


@pytest.mark.parametrize("spelling", ["plain", "slashes escaped", "spaced", "ascii"])
@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
async def test_d11_every_model_field_says_the_public_name(spelling: str, engine: str) -> None:
    """D11: plain answers, streams, embeddings, however the engine's JSON spells the name; the
    replica gets its own; the row keeps both; lengths are right after the change."""
    served = "组织/模型-7B" if spelling == "ascii" else SERVED

    def spell(data: bytes) -> bytes:
        if spelling == "slashes escaped":
            return data.replace(b"/", b"\\/")
        if spelling == "spaced":
            return data.replace(
                b'"model":', b'"model"  :\n ' if b"data:" not in data else b'"model" :'
            )
        return data

    async def answer(seen: Seen, wire: Wire) -> None:
        assert seen.json["model"] == served
        if seen.path.endswith("embeddings"):
            await wire.answer(spell(json.dumps(embeddings(served)).encode()))
        elif seen.json.get("stream"):
            events = [
                delta("a", model=served),
                delta(None, finish="stop", model=served),
                usage_event(model=served),
            ]
            if spelling == "ascii":
                events = [
                    event(json.loads(item.removeprefix(b"data: "))).replace(
                        served.encode(), json.dumps(served)[1:-1].encode()
                    )
                    for item in events
                ]
            await wire.stream(*(spell(item) for item in events), DONE)
        else:
            await wire.answer(spell(json.dumps(chat_answer(model=served)).encode()))

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, engine=engine, served=served))) as gateway,
    ):
        received = await gateway.streamed("x", stream_options={"include_usage": True})
        for frame in received.split(b"\n\n")[:-2]:
            assert json.loads(frame.removeprefix(b"data: "))["model"] == PUBLIC
        plain = await gateway.chat()
        assert plain.json()["model"] == PUBLIC
        assert int(plain.headers["content-length"]) == len(plain.content)
        vectors = await gateway.client.post(
            "/v1/embeddings", json={"model": "chat", "input": "x"}, headers=gateway.headers()
        )
        assert vectors.json()["model"] == PUBLIC
        assert int(vectors.headers["content-length"]) == len(vectors.content)
        assert b"7B" not in received + plain.content + vectors.content
        for row in await gateway.rows(3):
            assert (row.requested_model, row.served_model) == (PUBLIC, served)
        models = await gateway.client.get("/v1/models", headers=gateway.headers())
        assert "7B" not in models.text


async def test_d11_error_texts_do_not_show_the_served_name() -> None:
    """D11: neither in a refusal, nor in an in-band error, nor in one that moved on."""
    words = f"The model `{SERVED}` at /models/{SERVED}/ does not like this ({SERVED})."
    status = 400

    async def answer(seen: Seen, wire: Wire) -> None:
        error = {"message": words, "type": "x", "param": None, "code": status}
        if seen.json.get("stream"):
            await wire.stream(delta("a", model=SERVED), event({"error": error}))
        else:
            await wire.json({"error": error}, status)

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, served=SERVED))) as gateway,
    ):
        refused = await gateway.chat()
        expected = words.replace(SERVED, PUBLIC)
        assert refused.json()["error"]["message"] == expected
        assert int(refused.headers["content-length"]) == len(refused.content)
        streamed = await gateway.streamed()
        assert b"Model-7B" not in streamed
        assert expected in json.loads(streamed.split(b"data: ")[-1])["error"]["message"]
        status = 500
        assert "Model-7B" not in (await gateway.chat()).text


async def test_d11_what_people_say_about_models_is_left_alone() -> None:
    """Text and tool arguments that mention the served name are content, not fields."""
    talk = f'set "model": "{SERVED}" in the file, model {SERVED} is fine'
    arguments = json.dumps({"model": SERVED})

    async def answer(seen: Seen, wire: Wire) -> None:
        call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": arguments}}
        choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None}
        told = event({"model": SERVED, "choices": [choice]})
        await wire.stream(delta(talk, model=SERVED), told, delta(None, finish="stop"), DONE)

    async with (
        stub(answer) as server,
        gate(furnished(replica(server.url, served=SERVED))) as gateway,
    ):
        frames = (await gateway.streamed()).split(b"\n\n")
        first, second = (json.loads(frame.removeprefix(b"data: ")) for frame in frames[:2])
        assert first["choices"][0]["delta"]["content"] == talk
        call = second["choices"][0]["delta"]["tool_calls"][0]
        assert json.loads(call["function"]["arguments"]) == {"model": SERVED}
        assert first["model"] == second["model"] == PUBLIC


@pytest.mark.parametrize("served", ["error", "message", "a", "model", "m.7", "null"])
def test_a_short_served_name_does_not_take_the_answer_apart(served: str) -> None:
    """Only whole words in values are replaced, never keys or parts of other words."""
    body = json.dumps({"error": {"message": f"a model {served}, amalgam", "code": None}}).encode()
    found = json.loads(hide(body, served, "chat"))
    assert found["error"].keys() == {"message", "code"}
    assert f" chat, {'amalgam'}" in found["error"]["message"]
    assert hide_in_text(f"{served}x x{served}", served, "chat") == f"{served}x x{served}"


def test_names_that_are_the_same_change_nothing() -> None:
    """Not even spacing."""
    assert model_renamer("chat", "chat") is None
    body = b'{ "error" :{"message":"chat"} }'
    assert hide(body, "chat", "chat") is body
    assert hide(body, "elsewhere", "chat") is body


EVIL = "http://169.254.169.254/latest"
SMUGGLING: list[dict[str, object]] = [
    {"api_base": EVIL},
    {"base_url": EVIL},
    {"extra_body": {"api_base": EVIL, "url": EVIL}},
    {"metadata": {"api_base": EVIL, "base_url": EVIL}},
    {"tools": [{"type": "function", "function": {"name": "f", "url": EVIL, "api_base": EVIL}}]},
    {"custom_llm_provider": "x", "api_key": "y", "api_type": "z", "deployment_id": EVIL},
]


async def test_f05_a_body_cannot_name_where_it_goes() -> None:
    """F05: addresses at the top, nested, or in the query are the engine's matter at most: the
    call goes to the registered replica, to the path of its operation and to no other."""
    async with (
        stub() as server,
        stub() as elsewhere,
        gate(furnished(replica(server.url))) as gateway,
    ):
        for more in SMUGGLING:
            told = json.loads(json.dumps(more).replace(EVIL, elsewhere.url))
            response = await gateway.client.post(
                f"{CHAT}?api_base={elsewhere.url}&base_url={elsewhere.url}&model=x",
                json={"model": "chat", "messages": [], **told},
                headers={**gateway.headers(), "x-api-base": elsewhere.url},
            )
            assert response.status_code == 200
        assert {seen.path for seen in server.seen} == {CHAT}
        assert len(server.seen) == len(SMUGGLING)
        assert not elsewhere.seen
        assert elsewhere.connections == 0


async def test_f05_a_replica_that_redirects_is_not_followed() -> None:
    """F05: neither by a call, whose body and token would go along, nor by a probe."""
    async with stub() as elsewhere:

        async def redirect(seen: Seen, wire: Wire) -> None:
            await wire.head(307, ("Location", elsewhere.url + seen.path), ("Content-Length", "0"))

        async with stub(redirect) as server, gate(furnished(replica(server.url))) as gateway:
            assert (await gateway.chat()).status_code == 502
            well, server.health = server.health, redirect
            watch = gateway.runtime.health.watches["r1"]
            await gateway.until(lambda: watch.state == "down")
            server.health = well
            assert not elsewhere.seen
            assert elsewhere.connections == 0


async def put_in(gateway: Gate, url: str) -> None:
    """Tell the scheduler of a ready replica at ``url``, past every check at save or probe."""
    facts = replace(replica(url), name="odd", models={"odd": "odd"})
    gateway.memory.model(ModelFacts("odd"))
    gateway.runtime.gateway.fleet = gateway.memory.fleet()
    pool = PoolFacts("pool", False, frozenset({0, 1, 2}))
    gateway.runtime.scheduler.set_replica(ReplicaChanged(facts, pool, True, 1))


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[fd00:ec2::254]",
        "0.0.0.0",
        "8.8.8.8",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.169.254.nip.invalid",
    ],
)
async def test_f05_an_address_outside_is_refused_at_connect(host: str) -> None:
    """F05: link-local, mapped, foreign or obscurely written: checked where the connection is
    made too, whatever was checked when the replica was saved."""
    async with stub() as server:
        async with gate(
            furnished(replica(server.url)), networks=settings.FAIRLANE_REPLICA_CIDRS
        ) as gateway:
            await put_in(gateway, f"http://{host}:{server.port}")
            response = await gateway.chat(model="odd")
            assert response.status_code in (502, 503)
            assert host not in response.text
            assert (await gateway.chat()).status_code == 200
        assert len(server.seen) == 1


async def test_f05_a_name_is_judged_by_what_it_resolves_to() -> None:
    """F05: ``localhost`` is allowed where loopback is, and not where it is not."""
    async with (
        stub() as server,
        gate(furnished(), networks=settings.FAIRLANE_REPLICA_CIDRS) as gateway,
    ):
        await put_in(gateway, f"http://localhost:{server.port}")
        assert (await gateway.chat(model="odd")).status_code == 200
    async with stub() as server, gate(furnished(), networks=()) as gateway:
        await put_in(gateway, f"http://localhost:{server.port}")
        assert (await gateway.chat(model="odd")).status_code in (502, 503)
        assert not server.seen


async def test_a_replicas_path_prefix_is_kept() -> None:
    """An engine may live below a path."""
    async with stub(Held()) as server:
        facts = replica(server.url + "/engines/a/")
        async with gate(furnished(facts)) as gateway:
            server.answer = lambda seen, wire: wire.json(chat_answer())
            assert (await gateway.chat()).status_code == 200
            assert server.seen[0].path == f"/engines/a{CHAT}"
            assert KEY not in str(server.seen[0].headers)
