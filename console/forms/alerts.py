"""Where a business hears of its budget."""

from django import forms
from django.utils.translation import gettext_lazy as _

from metering.models import AlertTarget

from .plain import OfBusinessForm

KINDS = [
    (AlertTarget.Kind.MAIL, _("Mail")),
    (AlertTarget.Kind.WEBHOOK, _("Webhook: a signed POST")),
]


class AlertTargetForm(OfBusinessForm):
    """One more address."""

    kind = forms.ChoiceField(label=_("By"), choices=KINDS)
    address = forms.CharField(
        label=_("Mail address or URL"),
        max_length=500,
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
