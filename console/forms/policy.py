"""Small forms around a version of the policy: import, activate, try out."""

from datetime import datetime, timedelta
from typing import Any

from crispy_forms.helper import FormHelper
from django import forms
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from metering.models import Business
from scheduler.canary import Limits
from scheduler.simulation.scenario_file import built_in

MOST_REASON = 500
MOST_FILE = 128 * 1024
CUSTOM = "custom"
MOST_BUSINESSES = 2_000


class _Bare(forms.Form):
    """Several of these stand on one page: their inputs' ids must differ."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("auto_id", f"{type(self).__name__.lower()}_%s")
        super().__init__(*args, **kwargs)
        self.helper = FormHelper()
        self.helper.form_tag = False


class ReasonForm(_Bare):
    """Why, for the audit."""

    reason = forms.CharField(
        label=_("Reason"), max_length=MOST_REASON, help_text=_("It stands in the audit.")
    )


class ImportForm(_Bare):
    """A policy file."""

    file = forms.FileField(
        label=_("YAML file"),
        help_text=_("Fields that are not in it take their defaults."),
        widget=forms.ClearableFileInput(attrs={"accept": ".yaml,.yml,text/yaml"}),
    )

    def clean_file(self) -> str:
        """Its text."""
        file = self.cleaned_data["file"]
        if file.size > MOST_FILE:
            raise forms.ValidationError(_("The file is larger than 128 KiB."))
        try:
            text: str = file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise forms.ValidationError(_("The file is not UTF-8 text.")) from None
        return text


class WhatIfForm(_Bare):
    """Which traffic to run again."""

    traffic = forms.ChoiceField(label=_("Traffic"))
    begin = forms.DateTimeField(
        label=_("From (UTC)"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    end = forms.DateTimeField(
        label=_("To (UTC)"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        windows = [(str(minutes), _last(minutes)) for minutes in (5, 10, 30, 60)]
        scenarios = [(f"scenario:{name}", name) for name in built_in()]
        traffic = self.fields["traffic"]
        assert isinstance(traffic, forms.ChoiceField), "it was declared as one"
        traffic.choices = [
            (_("Recorded"), [*windows, (CUSTOM, _("The window below"))]),
            (_("Scenario"), scenarios),
        ]
        traffic.initial = "10"

    def window(self) -> tuple[datetime | None, datetime | None]:
        """Begin and end; nothing for a scenario."""
        chosen = self.cleaned_data["traffic"]
        if chosen == CUSTOM:
            return self.cleaned_data["begin"], self.cleaned_data["end"]
        if chosen.startswith("scenario:"):
            return None, None
        end = timezone.now()
        return end - timedelta(minutes=int(chosen)), end

    def scenario(self) -> str:
        """The scenario's name, or nothing."""
        chosen: str = self.cleaned_data["traffic"]
        return chosen.removeprefix("scenario:") if chosen.startswith("scenario:") else ""


def _last(minutes: int) -> Any:
    return {
        5: _("The last 5 minutes"),
        10: _("The last 10 minutes"),
        30: _("The last 30 minutes"),
        60: _("The last hour"),
    }[minutes]


class CanaryForm(_Bare):
    """On whom to try it, and how much worse it may do than for the others."""

    businesses = forms.MultipleChoiceField(
        label=_("Businesses"),
        help_text=_("All others stay with the active policy and are the control group."),
        widget=forms.SelectMultiple(attrs={"size": 6}),
    )
    sla_points = forms.FloatField(
        label=_("Late or failed: percentage points above the control group"),
        min_value=0,
        max_value=100,
        initial=5,
    )
    refusal_points = forms.FloatField(
        label=_("Refused: percentage points above the control group"),
        min_value=0,
        max_value=100,
        initial=5,
    )
    p95_factor = forms.FloatField(
        label=_("P95 wait of a lane: times the control group's"),
        min_value=1,
        max_value=100,
        initial=1.5,
    )
    least_samples = forms.IntegerField(
        label=_("Requests before anything is judged"),
        min_value=200,
        max_value=100_000,
        initial=200,
    )
    reason = forms.CharField(label=_("Reason"), max_length=MOST_REASON)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = Business.objects.values_list("name", flat=True)[:MOST_BUSINESSES]
        field = self.fields["businesses"]
        assert isinstance(field, forms.MultipleChoiceField), "it was declared as one"
        field.choices = [(name, name) for name in names]

    def limits(self) -> Limits:
        """As the judge takes them."""
        given = self.cleaned_data
        return Limits(
            least_samples=given["least_samples"],
            sla_points=given["sla_points"] / 100,
            refusal_points=given["refusal_points"] / 100,
            p95_factor=given["p95_factor"],
        )
