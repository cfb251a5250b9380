"""What operations set of a business."""

from decimal import Decimal
from typing import Any

from crispy_forms.helper import FormHelper
from django import forms
from django.utils.translation import gettext_lazy as _

from metering.core.quotas import FIELDS, Changes, Limits
from metering.models import Business, Quota
from metering.models.business import Grade, Lane, Realtime


class ProfileForm(forms.ModelForm[Business]):
    """Grade, ceiling and what else its level is made of."""

    class Meta:
        model = Business
        fields = [
            "grade",
            "ceiling",
            "realtime",
            "offline",
            "billing_sla",
            "weight",
            "latency_budget_ms",
            "degrade",
        ]
        labels = {
            "grade": _("Grade"),
            "ceiling": _("Most urgent lane"),
            "realtime": _("Realtime"),
            "offline": _("Offline work"),
            "billing_sla": _("Billing SLA"),
            "weight": _("Weight beside other businesses"),
            "latency_budget_ms": _("Latency budget (ms)"),
            "degrade": _("A lighter model may answer"),
        }
        help_texts = {
            "realtime": _("Empty: as the model says."),
            "latency_budget_ms": _("Empty: the lane's."),
            "degrade": _("Rather than a refusal, where the policy has it."),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helper = FormHelper()
        self.helper.form_tag = False
        for name, empty, choices in (
            ("grade", [], Grade.choices),
            ("ceiling", [], Lane.choices),
            ("realtime", [("", _("any"))], Realtime.choices),
        ):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField), "the model has choices for it"
            field.choices = [*empty, *choices]


class LimitsForm(forms.Form):
    """Limits, or the envelope of what the owner may set. Empty is unlimited, 0 blocks."""

    requests_per_s = forms.FloatField(label=_("Requests per second"), required=False, min_value=0)
    burst = forms.IntegerField(label=_("Burst"), required=False, min_value=0)
    tokens_per_min = forms.IntegerField(label=_("Tokens per minute"), required=False, min_value=0)
    running = forms.IntegerField(label=_("Running at once"), required=False, min_value=0)
    queued = forms.IntegerField(label=_("Waiting at once"), required=False, min_value=0)
    gpu_share = forms.FloatField(
        label=_("Share of all GPU time (%)"), required=False, min_value=0, max_value=100
    )
    monthly_budget = forms.DecimalField(
        label=_("Monthly budget"), required=False, min_value=0, max_digits=20, decimal_places=6
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helper = FormHelper()
        self.helper.form_tag = False
        for field in self.fields.values():
            field.widget.attrs["placeholder"] = _("unlimited")

    def changes(self) -> Changes:
        """As the services take them."""
        found: dict[str, Any] = {name: self.cleaned_data[name] for name in FIELDS}
        if found["gpu_share"] is not None:
            found["gpu_share"] = float(Decimal(str(found["gpu_share"])).scaleb(-2))
        return found

    def limits(self) -> Limits:
        """The same as one value."""
        return Limits(**self.changes())  # type: ignore[arg-type]


def limits_of(row: Quota | None) -> dict[str, object]:
    """What a form of limits shows at first."""
    if row is None:
        return {}
    found: dict[str, object] = {name: getattr(row, name) for name in FIELDS}
    if row.gpu_share is not None:
        found["gpu_share"] = float(Decimal(str(row.gpu_share)).scaleb(2))
    if row.monthly_budget is not None:
        found["monthly_budget"] = row.monthly_budget.normalize()
    return found
