"""Questions to model servers: connections kept and given up, names followed, addresses judged."""

import asyncio
import datetime as dt
import errno
import ipaddress
import os
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from scheduler.addresses import allows
from scheduler.probing import fetching, names
from scheduler.probing.fetching import Fetcher, NoAnswerError, ShortageError
from tests.gateway.harness import EVERYWHERE, free_port
from tests.gateway.stub import Seen, Stub, Wire, stub

LOOPBACK = [ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128")]


@pytest.fixture
async def fetcher() -> AsyncIterator[Fetcher]:
    found = Fetcher(allows(LOOPBACK))
    yield found
    await found.close()


@pytest.fixture
async def server() -> AsyncIterator[Stub]:
    async with stub() as running:
        yield running


class Lines:
    """A stub's GET side: notes over which connection each question came."""

    def __init__(self, *headers: tuple[str, str]) -> None:
        self.headers = headers
        self.wires: list[Wire] = []
        self.seen: list[Seen] = []

    async def __call__(self, seen: Seen, wire: Wire) -> None:
        self.wires.append(wire)
        self.seen.append(seen)
        await wire.answer(b"ok", 200, *self.headers)

    @property
    def connections(self) -> int:
        return len({id(wire) for wire in self.wires})


class Zone:
    """What names resolve to; look-ups may be made to wait or to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: dict[str, str] = {}
        self.asked = 0
        self.broken = False
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._resolve)

    def _resolve(self, host: str, port: int, *rest: int, **kinds: int) -> object:
        self.asked += 1
        if host not in self.known:
            return self._real(host, port, *rest, **kinds)
        if self.broken:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.known[host], port))]


async def test_a_connection_is_kept_for_the_next_question(server: Stub, fetcher: Fetcher) -> None:
    server.health = lines = Lines()
    for _ in range(3):
        assert await fetcher.get(server.url + "/health?x=1") == (200, b"ok")
    assert lines.connections == 1
    assert {seen.path for seen in lines.seen} == {"/health?x=1"}
    assert lines.seen[0].header("host") == f"127.0.0.1:{server.port}"
    assert lines.seen[0].header("accept-encoding") == "identity"


async def test_not_one_that_its_server_closes_or_closed(server: Stub, fetcher: Fetcher) -> None:
    server.health = lines = Lines(("Connection", "close"))
    for _ in range(2):
        assert (await fetcher.get(server.url))[0] == 200
    assert lines.connections == 2
    lines.headers = ()
    await fetcher.get(server.url)
    lines.wires[-1].hang_up()
    # Whether its end has been seen by now or not.
    assert (await fetcher.get(server.url))[0] == 200
    assert lines.connections == 4


async def test_not_one_that_is_old_or_has_rested_long(
    server: Stub, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.health = lines = Lines()
    for limit in ("FOLLOW_S", "KEEPALIVE_S"):
        await fetcher.get(server.url)
        before = lines.connections
        with monkeypatch.context() as patch:
            patch.setattr(fetching, limit, 0.0)
            await fetcher.get(server.url)
        assert lines.connections == before + 1
    with monkeypatch.context() as patch:
        patch.setattr(fetching, "KEEPALIVE_S", 0.0)
        fetcher.sweep()
    assert not fetcher._resting
    await fetcher.get(server.url)
    fetcher.forget(server.url)
    assert not fetcher._resting
    assert not fetcher._targets


async def test_two_questions_at_once_have_a_connection_each(server: Stub, fetcher: Fetcher) -> None:
    server.health = lines = Lines()
    answers = await asyncio.gather(*(fetcher.get(server.url) for _ in range(2)))
    assert answers == [(200, b"ok")] * 2
    assert lines.connections == 2


async def test_what_is_given_up_is_hung_up(fetcher: Fetcher) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        assert not await reader.read()
        writer.close()
        ended.set()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        question = asyncio.create_task(fetcher.get(f"http://127.0.0.1:{port}/health"))
        await begun.wait()
        question.cancel()
        with pytest.raises(asyncio.CancelledError):
            await question
        await ended.wait()


@pytest.mark.parametrize("how", ["refused", "hangs up", "breaks off", "no HTTP", "resets"])
async def test_why_there_is_no_answer(how: str, server: Stub, fetcher: Fetcher) -> None:
    async def answer(seen: Seen, wire: Wire) -> None:
        if how == "breaks off":
            await wire.head(200, ("Content-Length", "5"))
            await wire.send(b"hel")
            wire.hang_up()
        elif how == "no HTTP":
            await wire.send(b"+PONG\r\n\r\n")
        elif how == "resets":
            wire.reset()
        else:
            wire.hang_up()

    server.health = answer
    port = free_port() if how == "refused" else server.port
    with pytest.raises(NoAnswerError, match=r"\w") as caught:
        await fetcher.get(f"http://127.0.0.1:{port}/health")
    assert caught.value.refused is (how == "refused")


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "0.0.0.0",
        "8.8.8.8",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.254.169.254.nip.invalid",
    ],
)
async def test_where_no_replica_may_be_nothing_is_asked(host: str, fetcher: Fetcher) -> None:
    with pytest.raises(NoAnswerError, match=r"\w") as caught:
        await fetcher.get(f"http://{host}:80/health")
    assert not caught.value.refused


@pytest.mark.parametrize("url", ["ftp://a/b", "http://", "http://a b/", "nowhere", "http://a:x/"])
async def test_what_is_no_address(url: str, fetcher: Fetcher) -> None:
    with pytest.raises(NoAnswerError, match=r"\w"):
        await fetcher.get(url)


async def test_a_name_is_followed_to_another_address(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old address lives on, and keeps the connection open: that alone would hold for ever."""
    zone = Zone(monkeypatch)
    zone.known["card.example"] = "127.0.0.2"
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("sockname")[0])
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except asyncio.IncompleteReadError:
            writer.close()

    listening = await asyncio.start_server(quiet, "0.0.0.0", 0)
    async with listening:
        url = f"http://card.example:{listening.sockets[0].getsockname()[1]}/"
        await fetcher.get(url)
        zone.known["card.example"] = "127.0.0.3"
        await fetcher.get(url)
        assert seen == ["127.0.0.2"]
        assert zone.asked == 1
        for module in (fetching, names):
            monkeypatch.setattr(module, "FOLLOW_S", 0.0)
        await fetcher.get(url)
        assert seen == ["127.0.0.2", "127.0.0.3"]
        # To where no replica may be it is not followed, whatever was known before.
        zone.known["card.example"] = "169.254.169.254"
        with pytest.raises(NoAnswerError, match="no address that replicas may have"):
            await fetcher.get(url)
        zone.known["card.example"] = "127.0.0.4"
        await fetcher.get(url)
        await fetcher.close()
    assert seen[-1] == "127.0.0.4"


async def test_a_look_up_that_fails_takes_no_replica_away(
    server: Stub, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = Zone(monkeypatch)
    zone.known["card.example"] = "127.0.0.1"
    url = f"http://card.example:{server.port}/health"
    for module in (fetching, names):
        monkeypatch.setattr(module, "FOLLOW_S", 0.0)
    server.health = lines = Lines()
    await fetcher.get(url)
    zone.broken = True
    for _ in range(3):
        assert (await fetcher.get(url))[0] == 200
    assert lines.connections == 4
    assert zone.asked >= 2
    new = Fetcher(allows(LOOPBACK))
    with pytest.raises(NoAnswerError, match="try again"):
        await new.get(url)
    await new.close()


async def test_a_name_that_is_not_known_is_looked_up_once_for_all_who_ask(
    server: Stub, fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    zone = Zone(monkeypatch)
    zone.known["card.example"] = "127.0.0.1"
    urls = [f"http://card.example:{server.port}/{n}" for n in range(20)]
    answers = await asyncio.gather(*(fetcher.get(url) for url in urls))
    assert {status for status, _ in answers} == {200}
    assert zone.asked == 1


async def test_the_second_of_two_addresses_is_tried(server: Stub) -> None:
    """``localhost`` may have an IPv6 address where nobody listens."""
    fetcher = Fetcher(allows(EVERYWHERE))
    assert (await fetcher.get(f"http://localhost:{server.port}/health"))[0] == 200
    await fetcher.close()


async def test_what_this_machine_is_short_of_is_no_word_on_a_replica(
    server: Stub, fetcher: Fetcher
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)  # all numbers below it are in use
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        with pytest.raises(ShortageError, match=os.strerror(errno.EMFILE)):
            await fetcher.get(server.url)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(lowest)
    assert (await fetcher.get(server.url))[0] == 200


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate of ``localhost`` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / "certificate.pem", folder / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths


async def test_an_encrypted_server_is_asked_if_it_is_who_it_says(
    fetcher: Fetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, key = certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(shown, key)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listening:
        port = listening.sockets[0].getsockname()[1]
        with pytest.raises(NoAnswerError, match=r"(?i)certificate"):
            await fetcher.get(f"https://localhost:{port}/health")
        known = ssl.create_default_context(cafile=shown)
        monkeypatch.setattr(fetching, "_tls", lambda: known)
        for _ in range(2):
            assert (await fetcher.get(f"https://localhost:{port}/health"))[0] == 200
        with pytest.raises(NoAnswerError, match=r"(?i)certificate"):
            await fetcher.get(f"https://127.0.0.1:{port}/health")
        await fetcher.close()
