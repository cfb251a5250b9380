"""Where replicas may live: checked by address, whatever the name or the notation."""

import ipaddress
import socket

import pytest

from console.config.settings.fairlane import DEFAULT_CIDRS
from scheduler.addresses import allowed, check_publisher, check_url, locate

PRIVATE = [ipaddress.ip_network(text) for text in DEFAULT_CIDRS]
EVERYWHERE = [ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A resolver that knows these names, and numeric addresses."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def resolve(host: str, port: int | None, **kinds: int) -> object:
        if host in known:
            return [
                (socket.AF_INET, socket.SOCK_STREAM, 6, "", (text, port or 0))
                for text in known[host]
            ]
        return real(host, port, flags=socket.AI_NUMERICHOST, **kinds)

    monkeypatch.setattr("scheduler.addresses.socket.getaddrinfo", resolve)
    return known


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "10.1.2.3", "172.16.0.9", "192.168.1.1", "::1", "fd12::1", "::ffff:10.0.0.1"],
)
def test_private_addresses_are_allowed(text: str) -> None:
    assert allowed(ipaddress.ip_address(text), PRIVATE)


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "100.64.0.1", "2001:4860::1", "::ffff:8.8.8.8", "2002:0808:0808::1"]
)
def test_others_are_not(text: str) -> None:
    assert not allowed(ipaddress.ip_address(text), PRIVATE)


@pytest.mark.parametrize(
    "text",
    [
        *("169.254.169.254", "fe80::1", "fe80::1%1", "::ffff:169.254.169.254"),
        *("64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "fd00:ec2::254", "100.100.100.200"),
        *("0.0.0.0", "::", "224.0.0.1", "ff02::1"),
    ],
)
def test_some_are_never_allowed(text: str) -> None:
    assert not allowed(ipaddress.ip_address(text), EVERYWHERE)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8000",
        "https://10.0.0.1",
        "http://[::1]:8000/base",
        "http://card-1.gpu.internal:8000",
    ],
)
def test_plain_addresses_pass(url: str, names: dict[str, list[str]]) -> None:
    names["card-1.gpu.internal"] = ["10.0.0.7"]
    check_url(url, PRIVATE)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://127.0.0.1", "http"),
        ("file:///etc/passwd", "http"),
        ("127.0.0.1:8000", "http"),
        ("", "http"),
        ("http://", "host"),
        ("http://127.0.0.1:0", "port"),
        ("http://*:8000", "name a host"),
        ("http://127.0.0.1:99999", "no address"),
        ("http://[::1", "no address"),
        ("http://user:pass@127.0.0.1", "user name"),
        ("http://127.0.0.1@169.254.169.254", "user name"),
        ("http://127.0.0.1/?next=x", "path"),
        ("http://127.0.0.1/#x", "path"),
        ("http://127.0.0.1/?", "path"),
        ("http://127.0.0.1\\@evil", "characters"),
        ("http://127.0.0.1/\n", "characters"),
        ("http://127.0.0.1 ", "characters"),
        ("http://\uff11\uff12\uff17.0.0.1", "characters"),
        ("http://127.0.0.1/" + "x" * 500, "longer"),
        ("http://169.254.169.254/latest", "outside"),
        ("http://[fe80::1]:80", "outside"),
        ("http://8.8.8.8", "outside"),
        ("http://metadata.internal", "outside"),
        ("http://half.internal", "outside"),
        ("http://unknown.internal", "resolved"),
        ("http://2852039166/", "outside"),
        ("http://0xa9fea9fe/", "outside"),
    ],
)
def test_anything_else_is_refused(url: str, why: str, names: dict[str, list[str]]) -> None:
    names["metadata.internal"] = ["169.254.169.254"]
    names["half.internal"] = ["10.0.0.1", "169.254.169.254"]
    with pytest.raises(ValueError, match=why):
        check_url(url, PRIVATE)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("tcp://127.0.0.1:5557", "tcp://127.0.0.1:5557"),
        ("tcp://[::1]:5557", "tcp://[::1]:5557"),
        ("tcp://card-1.gpu.internal:5557", "tcp://10.0.0.7:5557"),
    ],
)
def test_a_publisher_is_named_by_its_address(
    url: str, place: str, names: dict[str, list[str]]
) -> None:
    """A name is looked up once, by whoever checks it: the library that connects sees none."""
    names["card-1.gpu.internal"] = ["10.0.0.7"]
    check_publisher(url, PRIVATE)
    assert locate(url, lambda text: True) == place


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://127.0.0.1:5557", "tcp"),
        ("ipc:///run/events", "tcp"),
        ("inproc://events", "tcp"),
        ("127.0.0.1:5557", "tcp"),
        ("tcp://127.0.0.1", "port"),
        ("tcp://127.0.0.1:0", "port"),
        ("tcp://127.0.0.1:5557/topic", "port"),
        ("tcp://user@127.0.0.1:5557", "user name"),
        ("tcp://*:5557", "name a host"),
        ("tcp://lo;127.0.0.1:5557", "resolved"),
        ("tcp://8.8.8.8:5557", "outside"),
        ("tcp://[::ffff:169.254.169.254]:80", "outside"),
        ("tcp://metadata.internal:80", "outside"),
        ("tcp://half.internal:80", "outside"),
    ],
)
def test_other_publishers_are_refused(url: str, why: str, names: dict[str, list[str]]) -> None:
    names["metadata.internal"] = ["169.254.169.254"]
    names["half.internal"] = ["10.0.0.1", "169.254.169.254"]
    with pytest.raises(ValueError, match=why):
        check_publisher(url, PRIVATE)
