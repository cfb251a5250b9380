"""Where a replica may live: the guard against being sent to addresses that are not replicas.

Checked when an operator saves an address and again at each connection, because a name may
resolve differently by then.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

# Where clouds hand out credentials to whoever asks, beside the link-local ones.
METADATA = frozenset(
    {ipaddress.ip_address("fd00:ec2::254"), ipaddress.ip_address("100.100.100.200")}
)
# IPv6 addresses that a translator turns into the IPv4 address in their last 32 bits.
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
MOST_CHARACTERS = 500
WEB = ("http", "https")
PUBLISHER = ("tcp",)


def allowed(address: Address, networks: Sequence[Network]) -> bool:
    """Whether a replica may have this address: inside ``networks``, and never a link-local,
    multicast, unspecified or metadata one, however it is written."""
    forms = _forms(address)
    if any(_never(form) for form in forms):
        return False
    plain = forms[-1]
    return any(plain.version == network.version and plain in network for network in networks)


def allows(networks: Sequence[Network]) -> Callable[[str], bool]:
    """The same judgement of addresses in text form; what is no address is refused."""

    def judge(text: str) -> bool:
        try:
            return allowed(ipaddress.ip_address(text), networks)
        except ValueError:
            return False

    return judge


def _forms(address: Address) -> list[Address]:
    """The address, and last the IPv4 one that it stands for, if it is such an IPv6 address."""
    found: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if within is None and address in NAT64:
            within = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if within is not None:
            found.append(within)
    return found


def _never(address: Address) -> bool:
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in METADATA
    )


def check_url(url: str, networks: Sequence[Network]) -> None:
    """Raise ValueError, with what is wrong, unless ``url`` may be a replica's address.

    Names are resolved, which may block for seconds; each of their addresses must be allowed.
    """
    _resolve(*_parts(url, WEB), lambda text: allowed(ipaddress.ip_address(text), networks))


def check_publisher(url: str, networks: Sequence[Network]) -> None:
    """The same for the ``tcp://host:port`` of a ZeroMQ publisher."""
    locate(url, lambda text: allowed(ipaddress.ip_address(text), networks))


def locate(url: str, may: Callable[[str], bool]) -> str:
    """A publisher's address with the IP address that its name has now in place of the name, for
    libraries that look names up themselves. ``may`` judges each IP address in text form.

    Raises ValueError as ``check_url`` does, and may block as long.
    """
    host, port = _parts(url, PUBLISHER)
    if port is None or urlsplit(url).path:
        raise ValueError("must be tcp://, a host and a port")
    found = _resolve(host, port, may)[0]
    return f"tcp://[{found}]:{port}" if ":" in found else f"tcp://{found}:{port}"


def _resolve(host: str, port: int | None, may: Callable[[str], bool]) -> list[str]:
    """All IP addresses of a host."""
    try:
        entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise ValueError(f"the host {host} cannot be resolved") from None
    found = [str(entry[4][0]) for entry in entries]
    for text in found:
        if not may(text):
            what = text if text == host else f"{host} is {text}, which"
            raise ValueError(f"{what} is outside the networks that replicas may live in")
    return found


def _parts(url: str, schemes: tuple[str, ...]) -> tuple[str, int | None]:
    """Host and port of a plain address."""
    if len(url) > MOST_CHARACTERS:
        raise ValueError(f"is longer than {MOST_CHARACTERS} characters")
    # urlsplit drops tabs and line ends silently, and browsers take a backslash for a slash.
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise ValueError("has characters that an address cannot have")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"is no address: {error}") from None
    if parts.scheme not in schemes:
        raise ValueError(f"must begin with {' or '.join(f'{scheme}://' for scheme in schemes)}")
    if "@" in parts.netloc:
        raise ValueError("must not hold a user name or password")
    if parts.query or parts.fragment or url.endswith(("?", "#")):
        raise ValueError("must end with its path")
    # A star is what servers listen on; asked for, it is this machine.
    if not host or host == "*" or port == 0:
        raise ValueError("must name a host, and a port other than 0")
    return host, port
