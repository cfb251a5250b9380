"""Alerts at 80 and 100 % of a month's budget.

That an alert is due is written down once, by a unique row, together with each address it goes to.
Each of those is then delivered by whoever locks it first, and tried again while it fails: two
beats send nothing twice.
"""

import json
import logging
import smtplib
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils import timezone

from metering.core.rounding import rounded
from metering.models import AlertDelivery, AlertTarget, BudgetAlert, Quota
from metering.sealing import WEBHOOKS, UnreadableSecretError, unseal
from metering.selectors.showback import Spent, all_month_to_date
from metering.services.alert_targets import addresses
from metering.services.bills import places_of
from metering.webhooks import Permitted, WebhookError, is_public, post

log = logging.getLogger(__name__)

PERCENTS = (80, 100)
MOST_ATTEMPTS = 10
LONGEST_PAUSE = timedelta(hours=6)
Kind = AlertTarget.Kind


def alert_budgets(*, now: datetime | None = None, permitted: Permitted = is_public) -> int:
    """Note what is due and deliver what waits; returns the number of deliveries made."""
    now = now or timezone.now()
    budgets = Quota.objects.filter(kind=Quota.Kind.LIMIT, monthly_budget__gt=0)
    for spent in all_month_to_date(now) if budgets.exists() else []:
        for percent in PERCENTS:
            if spent.budget and spent.amount * 100 >= spent.budget * percent:
                _note(spent, spent.budget, percent)
    return deliver(now=now, permitted=permitted)


def deliver(*, now: datetime | None = None, permitted: Permitted = is_public) -> int:
    """Send what waits and is due. A delivery that fails waits longer each time, then is given
    up after ``MOST_ATTEMPTS``."""
    now = now or timezone.now()
    waiting = AlertDelivery.objects.filter(
        sent_at=None, next_at__lte=now, attempts__lt=MOST_ATTEMPTS
    )
    made = 0
    for pk in list(waiting.order_by("pk").values_list("pk", flat=True)):
        with transaction.atomic():
            delivery = (
                waiting.select_for_update(skip_locked=True, of=("self",))
                .select_related("alert")
                .filter(pk=pk)
                .first()
            )
            made += delivery is not None and _send(delivery, now, permitted)
    return made


def _note(spent: Spent, budget: Decimal, percent: int) -> None:
    with transaction.atomic():
        alert, new = BudgetAlert.objects.get_or_create(
            business=spent.business,
            month=spent.month,
            percent=percent,
            budget=budget,
            defaults={"spent": spent.amount, "at": spent.as_of},
        )
        if new:
            AlertDelivery.objects.bulk_create(
                AlertDelivery(alert=alert, kind=kind, address=address, next_at=spent.as_of)
                for kind, address in sorted(addresses(spent.business))
            )


def _send(delivery: AlertDelivery, now: datetime, permitted: Permitted) -> bool:
    """Try one delivery and write down what came of it; True if it is made."""
    delivery.attempts += 1
    try:
        if delivery.kind == Kind.MAIL:
            _mail(delivery)
        else:
            _webhook(delivery, now, permitted)
    except (WebhookError, UnreadableSecretError, smtplib.SMTPException, OSError) as error:
        delivery.error = (str(error) or type(error).__name__)[:200]
        pause = min(timedelta(minutes=2**delivery.attempts), LONGEST_PAUSE)
        delivery.next_at = now + pause
        log.warning("an alert to %s was not delivered: %s", delivery.kind, delivery.error)
    else:
        delivery.sent_at, delivery.error = now, ""
    delivery.save()
    return delivery.sent_at is not None


def _mail(delivery: AlertDelivery) -> None:
    alert = delivery.alert
    places = places_of(settings.BILLING_CURRENCY)
    currency = settings.BILLING_CURRENCY
    spent, budget = (f"{rounded(money, places):,f}" for money in (alert.spent, alert.budget))
    then = (
        "Requests are refused until the month ends or the budget is raised."
        if alert.percent >= 100
        else "At 100 % requests are refused until the month ends or the budget is raised."
    )
    EmailMessage(
        subject=f"{alert.business}: {alert.percent} % of the budget for {alert.month:%Y-%m} spent",
        body=f"{alert.business} has spent {spent} {currency} of its budget of {budget} {currency}"
        f" for {alert.month:%B %Y}.\n\n{then}\n",
        to=[delivery.address],
        # The same at each try, so that mail systems drop a second one.
        headers={"Message-ID": f"<{alert.pk}.{delivery.pk}@fairlane>"},
    ).send()


def _webhook(delivery: AlertDelivery, now: datetime, permitted: Permitted) -> None:
    alert = delivery.alert
    target = AlertTarget.objects.filter(
        business__name=alert.business, kind=Kind.WEBHOOK, address=delivery.address
    ).first()
    if target is None:
        raise WebhookError("the address was removed")
    body = {
        "id": str(alert.pk),
        "event": "budget_alert",
        "business": alert.business,
        "month": f"{alert.month:%Y-%m}",
        "percent": alert.percent,
        "spent": _money(alert.spent),
        "budget": _money(alert.budget),
        "currency": settings.BILLING_CURRENCY,
        "at": alert.at.isoformat(),
    }
    post(
        delivery.address,
        json.dumps(body).encode(),
        secret=unseal(bytes(target.sealed), settings.FAIRLANE_KEY_PEPPER, WEBHOOKS),
        delivery=f"{alert.pk}.{delivery.pk}",
        at=int(now.timestamp()),
        permitted=permitted,
    )


def _money(amount: Decimal) -> str:
    return f"{amount.normalize():f}"
