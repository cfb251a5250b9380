"""Making and rotating keys."""

from datetime import timedelta

from django import forms
from django.utils.translation import gettext_lazy as _

from .plain import OfBusinessForm, PlainForm


class CreateKeyForm(OfBusinessForm):
    """A new key's name and how long it lives."""

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("Where it will be used, for example “production”."),
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )
    days = forms.TypedChoiceField(
        label=_("Expires"),
        coerce=int,
        initial=0,
        choices=[
            (0, _("Never")),
            (30, _("In 30 days")),
            (90, _("In 90 days")),
            (365, _("In a year")),
        ],
    )

    def lifetime(self) -> timedelta | None:
        """How long the key lives; None for good."""
        days = self.cleaned_data["days"]
        return timedelta(days=days) if days else None


class RotateKeyForm(PlainForm):
    """How long the old key goes on beside its successor."""

    hours = forms.TypedChoiceField(
        label=_("The old key keeps working for"),
        coerce=int,
        initial=24,
        choices=[
            (0, _("No time: it stops at once")),
            (1, _("1 hour")),
            (24, _("24 hours")),
            (168, _("7 days")),
        ],
    )

    def overlap(self) -> timedelta:
        """How long both keys work."""
        return timedelta(hours=self.cleaned_data["hours"])
