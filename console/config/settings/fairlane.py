"""What Fairlane itself is told by the environment."""

import ipaddress
from pathlib import Path

from console.config.env import stop
from console.config.secrets import kept_secret
from scheduler.scaling.card_file import CardsError, parse_cards
from scheduler.scaling.cards import CardSpec

from .base import ENV
from .data import FAIRLANE_DATA_DIR

FAIRLANE_MAX_BODY_BYTES = ENV.integer("FAIRLANE_MAX_BODY_BYTES", 32 * 1024 * 1024, least=1024)
METRICS_TOKEN = ENV.secret("METRICS_TOKEN")
OTEL_EXPORTER_OTLP_ENDPOINT = ENV.text("OTEL_EXPORTER_OTLP_ENDPOINT")
BILLING_TZ = ENV.timezone("BILLING_TZ", "Asia/Shanghai")
BILLING_CURRENCY = ENV.text("BILLING_CURRENCY", "CNY")
if not (len(BILLING_CURRENCY) == 3 and BILLING_CURRENCY.isalpha() and BILLING_CURRENCY.isupper()):
    raise stop("BILLING_CURRENCY", f"{BILLING_CURRENCY!r} is not a three-letter currency code")
# How long after a month's end its bills are issued by themselves.
BILLING_GRACE_HOURS = ENV.integer("BILLING_GRACE_HOURS", 6)
# Rows of closed months go when they are older; hours, statements and bills stay. 0 keeps all.
USAGE_RETENTION_DAYS = ENV.integer("USAGE_RETENTION_DAYS", 400)

# Keys are hashed under a secret of their own, so that a new SECRET_KEY locks nobody out.
FAIRLANE_KEY_PEPPER = (
    ENV.secret("FAIRLANE_KEY_PEPPER") or kept_secret(FAIRLANE_DATA_DIR / "key_pepper")
).encode()

DEFAULT_CIDRS = (
    "127.0.0.0/8",
    "::1/128",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
)


def cards(path: str) -> tuple[CardSpec, ...]:
    """The cards of this machine that may be put to use, as a file names them; none without."""
    if not path:
        return ()
    try:
        return parse_cards(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, CardsError) as error:
        raise stop("FAIRLANE_CARDS", str(error)) from None


FAIRLANE_CARDS = cards(ENV.text("FAIRLANE_CARDS"))


def networks(names: list[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """The networks that replicas may live in."""
    found = []
    for name in names:
        try:
            found.append(ipaddress.ip_network(name))
        except ValueError as error:
            raise stop("FAIRLANE_REPLICA_CIDRS", str(error)) from None
    return found


FAIRLANE_REPLICA_CIDRS = networks(ENV.names("FAIRLANE_REPLICA_CIDRS", DEFAULT_CIDRS))
