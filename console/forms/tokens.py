"""A new management token."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from .plain import PlainForm


class TokenForm(PlainForm):
    """Its name, what it may do and for how long."""

    name = forms.CharField(
        label=_("Name"),
        max_length=80,
        help_text=_("What it will be used by, for example “nightly export”."),
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label=_("May"),
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Writing includes reading."),
    )
    days = forms.TypedChoiceField(
        label=_("Expires"),
        coerce=int,
        initial=90,
        choices=[
            (1, _("In a day")),
            (30, _("In 30 days")),
            (90, _("In 90 days")),
            (365, _("In a year")),
        ],
    )

    def __init__(self, scopes: Sequence[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["scopes"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(scope, scope) for scope in scopes]

    def lifetime(self) -> timedelta:
        """How long it lives."""
        return timedelta(days=self.cleaned_data["days"])
