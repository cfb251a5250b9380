"""Signed POSTs to addresses on the public internet.

The name is resolved once and every address that it has must be public; the connection then goes
to one of those, so that the name cannot come to mean another one in between. Redirects are not
followed and no proxy is asked. The answer's body is not read.
"""

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Permitted = Callable[[Address], bool]
NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
MOST_CHARACTERS = 500
TIMEOUT_S = 10.0
SIGNATURE, DELIVERY = "X-Fairlane-Signature", "X-Fairlane-Delivery"


class WebhookError(Exception):
    """It was not delivered; the message is one line that says why."""


def is_public(address: Address) -> bool:
    """Whether an address is on the public internet, however it is written."""
    forms: list[Address] = [address]
    if isinstance(address, ipaddress.IPv6Address):
        within = address.ipv4_mapped or address.sixtofour
        if within is None and address in NAT64:
            within = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if within is not None:
            # The written form is public or not by what it stands for.
            forms = [within]
        if address.teredo is not None:
            forms += address.teredo
    return all(form.is_global and not form.is_multicast for form in forms)


def resolve(url: str, permitted: Permitted = is_public) -> str:
    """An address (text) that ``url`` may be reached at. Raises WebhookError; may block."""
    host, port = _parts(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise WebhookError(f"the host {host} cannot be resolved") from None
    texts = [str(entry[4][0]) for entry in found]
    for text in texts:
        if not permitted(ipaddress.ip_address(text.partition("%")[0])):
            raise WebhookError(f"{host} is not on the public internet")
    return texts[0]


def signature(secret: bytes, at: int, body: bytes) -> str:
    """``t=<seconds>,v1=<hex>``: HMAC-SHA256 over the seconds, a full stop and the body."""
    digest = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post(
    url: str,
    body: bytes,
    *,
    secret: bytes,
    delivery: str,
    at: int,
    permitted: Permitted = is_public,
) -> None:
    """POST a JSON body. ``at``: seconds since the epoch; ``delivery``: the same each time it is
    tried. Raises WebhookError unless a 2xx came back."""
    address = resolve(url, permitted)
    target = httpx.URL(url)
    headers = {
        "Host": target.netloc.decode("ascii"),
        "Content-Type": "application/json",
        "User-Agent": "Fairlane",
        SIGNATURE: signature(secret, at, body),
        DELIVERY: delivery,
    }
    pinned = target.copy_with(host=address)
    try:
        with (
            httpx.Client(timeout=TIMEOUT_S, trust_env=False, follow_redirects=False) as client,
            client.stream(
                "POST",
                pinned,
                content=body,
                headers=headers,
                extensions={"sni_hostname": target.host},
            ) as answer,
        ):
            status = answer.status_code
    except httpx.HTTPError as error:
        raise WebhookError(str(error) or type(error).__name__) from None
    if 300 <= status < 400:
        raise WebhookError(f"status {status}: redirects are not followed")
    if not 200 <= status < 300:
        raise WebhookError(f"status {status}")


def _parts(url: str) -> tuple[str, int | None]:
    """Host and port of a plain http(s) address."""
    if len(url) > MOST_CHARACTERS:
        raise WebhookError(f"an address has at most {MOST_CHARACTERS} characters")
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        raise WebhookError("the address has characters that it cannot have")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise WebhookError(f"no address: {error}") from None
    if parts.scheme not in {"http", "https"}:
        raise WebhookError("an address begins with https:// or http://")
    if "@" in parts.netloc or parts.fragment:
        raise WebhookError("the address must hold no password and no fragment")
    if not host or port == 0:
        raise WebhookError("the address names no host")
    return host, port
