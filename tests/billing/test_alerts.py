"""Budgets: how much is spent, and that each alert goes out once, to the right places only."""

import hashlib
import hmac
import ipaddress
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from django.db import connections

from console.config.settings.mail import mail
from console.models import User
from metering import webhooks
from metering.core.prices import PriceList
from metering.errors import BillingRequestError
from metering.models import (
    AlertDelivery,
    AlertTarget,
    BudgetAlert,
    Business,
    Membership,
    Quota,
)
from metering.sealing import WEBHOOKS, UnreadableSecretError, seal, unseal
from metering.selectors.showback import all_month_to_date, month_to_date
from metering.services.alert_targets import add_target, remove_target
from metering.services.alerts import alert_budgets
from metering.services.month_close import close_month
from metering.services.settlement import settle_due
from metering.webhooks import WebhookError, is_public

from .world import OTHERS, price_all, used

SHANGHAI = ZoneInfo("Asia/Shanghai")
NOON = datetime(2026, 3, 10, 12, tzinfo=SHANGHAI)


@dataclass
class Mailbox:
    """What an SMTP server of ours was given."""

    mails: list[Any] = field(default_factory=list)
    broken: bool = False

    async def handle_DATA(  # noqa: N802 - the library's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        if self.broken:
            return "451 come back later"
        assert isinstance(envelope.content, bytes)
        self.mails.append((envelope.rcpt_tos, message_from_bytes(envelope.content)))
        return "250 OK"


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    box = Mailbox()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    settings.SMTP_URL = "smtp://127.0.0.1"
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    settings.EMAIL_PORT = port
    yield box
    controller.stop()


@dataclass
class Hook:
    """A receiver of webhooks; ``status`` is what it answers."""

    url: str
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    status: int = 204


@pytest.fixture
def hook() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append((dict(self.headers.items()), body))
            self.send_response(found.status)
            if found.status == 302:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Hook(f"http://127.0.0.1:{server.server_address[1]}/budget")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


def loopback(address: webhooks.Address) -> bool:
    return address.is_loopback


def budgeted(budget: str = "10", name: str = "risk-audit") -> Business:
    business = Business.objects.create(name=name)
    Quota.objects.create(business=business, monthly_budget=Decimal(budget))
    owner = User.objects.create(username=f"{name}-owner", email=f"owner@{name}.example")
    Membership.objects.create(business=business, user=owner, role="owner")
    looker = User.objects.create(username=f"{name}-member", email="member@other.example")
    Membership.objects.create(business=business, user=looker, role="member")
    return business


def one_each(amount: int, at: datetime = NOON, **fields: Any) -> None:
    """A request that costs ``amount``, to the last digit."""
    used(
        at,
        requested_model="flat",
        prompt_tokens=amount * 1_000_000,
        cached_tokens=0,
        completion_tokens=0,
        **fields,
    )


@pytest.mark.django_db(transaction=True)
def test_alerts_go_out_once_by_mail_and_webhook(mailbox: Mailbox, hook: Hook) -> None:
    price_all()
    business = budgeted()
    _, secret = add_target(business, "webhook", hook.url, actor=None, permitted=loopback)
    add_target(business, "mail", "books@risk.example", actor=None)
    one_each(7)
    assert alert_budgets(now=NOON, permitted=loopback) == 0
    one_each(1)

    def everybody(now: datetime) -> int:
        """Four beats at the same moment."""

        def one(_: int) -> int:
            try:
                return alert_budgets(now=now, permitted=loopback)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(one, range(4)))

    assert everybody(NOON + timedelta(seconds=1)) == 3
    assert everybody(NOON + timedelta(hours=1)) == 0
    assert sorted(to for to, _ in mailbox.mails) == [
        ["books@risk.example"],
        ["owner@risk-audit.example"],
    ]
    assert mailbox.mails[0][1]["Subject"] == "risk-audit: 80 % of the budget for 2026-03 spent"
    one_each(2)
    settle_due(now=NOON + timedelta(days=1))
    assert everybody(NOON + timedelta(days=1)) == 3
    assert everybody(NOON + timedelta(days=2)) == 0
    assert len(mailbox.mails) == 4
    first, second = hook.got
    assert [json.loads(body)["percent"] for _, body in hook.got] == [80, 100]
    assert json.loads(second[1])["spent"] == "10"
    headers, body = first
    at, mark = (part.partition("=")[2] for part in headers["X-Fairlane-Signature"].split(","))
    expected = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256)
    assert mark == expected.hexdigest()
    assert headers["X-Fairlane-Delivery"].startswith(json.loads(body)["id"])
    # Another budget is another matter; the next month likewise.
    Quota.objects.update(monthly_budget=Decimal(11))
    assert everybody(NOON + timedelta(days=2)) == 3
    assert BudgetAlert.objects.count() == 3


@pytest.mark.django_db
def test_what_fails_is_tried_again_later(mailbox: Mailbox, hook: Hook) -> None:
    price_all()
    business = budgeted("1")
    target, _ = add_target(business, "webhook", hook.url, actor=None, permitted=loopback)
    one_each(1)
    mailbox.broken = True
    hook.status = 302
    now = NOON + timedelta(minutes=1)
    assert alert_budgets(now=now, permitted=loopback) == 0
    # Two alerts, each to two addresses; the redirect was not followed.
    assert len(hook.got) == 2
    errors = set(AlertDelivery.objects.values_list("kind", "attempts", "error"))
    assert ("webhook", 1, "status 302: redirects are not followed") in errors
    assert {attempts for _, attempts, _ in errors} == {1}
    mailbox.broken, hook.status = False, 200
    assert alert_budgets(now=now + timedelta(minutes=1), permitted=loopback) == 0
    assert alert_budgets(now=now + timedelta(minutes=2), permitted=loopback) == 4
    assert (len(mailbox.mails), len(hook.got)) == (2, 4)
    remove_target(target, actor=None)
    assert not AlertTarget.objects.exists()


@pytest.mark.django_db
def test_without_a_mail_server_there_is_no_mail() -> None:
    price_all()
    budgeted("1")
    budgeted("0", name="blocked")
    one_each(1)
    assert alert_budgets(now=NOON + timedelta(minutes=1)) == 0
    assert BudgetAlert.objects.filter(business="risk-audit").count() == 2
    assert not AlertDelivery.objects.exists()


PRIVATE = [
    *("127.0.0.1", "10.0.0.1", "172.16.3.4", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "192.0.2.1"),
    "2001:0:7f00:1::",
]


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses_are_none_for_webhooks(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    host = f"[{text}]" if ":" in text else text
    with pytest.raises(WebhookError, match="public"):
        webhooks.resolve(f"https://{host}/hook")


def test_public_addresses_are_fine() -> None:
    assert webhooks.resolve("https://93.184.216.34/hook") == "93.184.216.34"
    assert webhooks.resolve("https://[2606:4700::1111]:8443/") == "2606:4700::1111"
    for wrong in ("ftp://93.184.216.34/", "https://u:p@93.184.216.34/", "https:///x", "nonsense"):
        with pytest.raises(WebhookError):
            webhooks.resolve(wrong)


def test_the_address_that_was_checked_is_the_one_connected_to(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that means another address at its second look-up."""
    port = int(hook.url.rpartition(":")[2].partition("/")[0])
    asked: list[str] = []
    real = socket.getaddrinfo

    def answer(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != "hooks.example":
            return real(host, *args, **kwargs)
        asked.append(host)
        return real("127.0.0.1" if len(asked) == 1 else "192.0.2.1", *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    webhooks.post(
        f"http://hooks.example:{port}/x",
        b"{}",
        secret=b"s",
        delivery="1",
        at=1,
        permitted=loopback,
    )
    assert asked == ["hooks.example"]
    assert hook.got[0][0]["Host"] == f"hooks.example:{port}"
    # One private address among several is enough to refuse.
    asked.clear()
    with pytest.raises(WebhookError, match="public"):
        webhooks.post(f"http://hooks.example:{port}/x", b"", secret=b"", delivery="", at=1)
    assert len(hook.got) == 1


@pytest.mark.django_db
def test_targets_are_checked_and_their_secret_is_sealed() -> None:
    business = budgeted()
    for kind, address in (
        ("webhook", "http://127.0.0.1/"),
        ("webhook", "http://169.254.169.254/latest/meta-data"),
        ("mail", "nobody"),
        ("pigeon", "roof"),
    ):
        with pytest.raises(BillingRequestError):
            add_target(business, kind, address, actor=None)
    target, secret = add_target(business, "webhook", "https://93.184.216.34/h", actor=None)
    with pytest.raises(BillingRequestError, match="already"):
        add_target(business, "webhook", "https://93.184.216.34/h", actor=None)
    assert secret.encode() not in bytes(target.sealed)
    sealed = seal(b"plain", b"pepper", WEBHOOKS)
    assert unseal(sealed, b"pepper", WEBHOOKS) == b"plain"
    for pepper, purpose in ((b"other", WEBHOOKS), (b"pepper", b"another purpose")):
        with pytest.raises(UnreadableSecretError):
            unseal(sealed, pepper, purpose)


@pytest.mark.django_db
def test_the_month_so_far() -> None:
    prices = PriceList(models={"flat": OTHERS})
    price_all(prices)
    budgeted("100")
    start = datetime(2026, 3, 1, tzinfo=SHANGHAI)
    one_each(4, at=start - timedelta(seconds=1))
    one_each(1, at=start)
    one_each(2, at=start + timedelta(days=4))
    one_each(3, at=start + timedelta(days=9, hours=12))
    one_each(5, at=start + timedelta(days=9), business="doc-qa")
    now = start + timedelta(days=10, hours=8)
    fresh = month_to_date("risk-audit", now)
    assert (fresh.amount, fresh.requests, fresh.budget, fresh.left) == (
        *(Decimal(6), 3),
        *(Decimal(100), Decimal(94)),
    )
    assert fresh.forecast == Decimal(6) * 31 * 24 / (10 * 24 + 8)
    settle_due(now=now)
    assert month_to_date("risk-audit", now) == fresh
    # What came late for a closed month is part of the month whose bill it goes on.
    close_month(date(2026, 2, 1), now=now)
    one_each(10, at=start - timedelta(days=3))
    settle_due(now=now)
    assert month_to_date("risk-audit", now).amount == 16
    everybody = {spent.business: spent for spent in all_month_to_date(now)}
    assert everybody["doc-qa"].amount == 5
    assert everybody["doc-qa"].used_ratio is None
    assert everybody["risk-audit"].used_ratio == pytest.approx(0.16)
    assert month_to_date("nobody", now).amount == 0


def test_a_mail_server_is_one_address(capsys: pytest.CaptureFixture[str]) -> None:
    found = mail("smtp+tls://books:p%40ss@mail.example")
    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == ("mail.example", 587)
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("books", "p@ss")
    assert (found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (True, False)
    assert mail("smtps://mail.example:4650")["EMAIL_PORT"] == 4650
    for wrong in ("mail.example", "http://mail.example", "smtp://", "smtp://mail.example:x"):
        with pytest.raises(SystemExit):
            mail(wrong)
        assert capsys.readouterr().err.startswith("fairlane: SMTP_URL: ")
