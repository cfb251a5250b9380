"""Limits of a business, as people write them."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from metering.core.quotas import FIELDS, MOST_BIG, MOST_INT, MOST_MONEY, MOST_RATE, Limits
from metering.models import Quota

from .plain import OfBusinessForm

# Name and unit of each limit.
LABELS: dict[str, Any] = {
    "requests_per_s": _("Requests per second"),
    "burst": _("Requests at once"),
    "tokens_per_min": _("Tokens per minute"),
    "running": _("Running requests"),
    "queued": _("Waiting requests"),
    "gpu_share": _("Share of GPU time"),
    "monthly_budget": _("Monthly budget"),
}
UNITS: dict[str, Any] = {
    "requests_per_s": _("per second"),
    "burst": _("requests"),
    "tokens_per_min": _("per minute"),
    "running": _("requests"),
    "queued": _("requests"),
    "gpu_share": "%",
    "monthly_budget": settings.BILLING_CURRENCY,
}
HUNDRED = Decimal(100)


def shown(name: str, value: float | Decimal | None) -> float | Decimal | None:
    """A limit as the form has it: shares in per cent, the rest as it is."""
    if value is None or name != "gpu_share":
        return value.normalize() if isinstance(value, Decimal) else value
    return round(Decimal(str(value)) * HUNDRED, 2).normalize()


class LimitsForm(OfBusinessForm):
    """All limits. Blank is unlimited, 0 blocks.

    What somebody else has changed since the page was made stays: a field counts as changed
    only where it differs from what this page showed.
    """

    requests_per_s = forms.FloatField(min_value=0, max_value=MOST_RATE)
    burst = forms.IntegerField(min_value=0, max_value=MOST_INT)
    tokens_per_min = forms.IntegerField(min_value=0, max_value=MOST_BIG)
    running = forms.IntegerField(min_value=0, max_value=MOST_INT)
    queued = forms.IntegerField(min_value=0, max_value=MOST_INT)
    gpu_share = forms.DecimalField(min_value=0, max_value=HUNDRED, decimal_places=2)
    monthly_budget = forms.DecimalField(
        min_value=0, max_value=MOST_MONEY - Decimal("0.000001"), decimal_places=6
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in FIELDS:
            field = self.fields[name]
            field.label = LABELS[name]
            field.required = False
            field.show_hidden_initial = True
            # Numbers in a text field: a browser drops what it takes for none without a word.
            field.widget = forms.TextInput({"inputmode": "decimal", "autocomplete": "off"})

    def seen(self, name: str) -> object:
        """The limit as the page showed it, which goes along hidden."""
        held = self[name]
        return self.data.get(held.html_initial_name) if self.is_bound else held.initial

    def changes(self) -> dict[str, int | float | Decimal | None]:
        """The limits that were changed on this page, as the services take them."""
        found = {name: self.cleaned_data[name] for name in self.changed_data if name in FIELDS}
        if found.get("gpu_share") is not None:
            found["gpu_share"] = float(found["gpu_share"] / HUNDRED)
        return found


def initial_of(business: str, held: Quota | None) -> Mapping[str, object]:
    """What the form shows for the limits as they are; no row: all unlimited."""
    values = {name: shown(name, None if held is None else getattr(held, name)) for name in FIELDS}
    return {"business": business, **values}


def most_of(envelope: Limits | None, name: str) -> float | Decimal | None:
    """The most that the owner may set alone, as the form has it; None: no bound."""
    return None if envelope is None else shown(name, getattr(envelope, name))
