"""What the console's forms have in common."""

from typing import Any

from crispy_forms.helper import FormHelper
from django import forms
from django.utils.translation import gettext_lazy as _


class PlainForm(forms.Form):
    """A form whose page writes its own ``form`` element."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helper = FormHelper()
        self.helper.form_tag = False


class OfBusinessForm(PlainForm):
    """A form that names its business: another window may have switched to a different one."""

    business = forms.CharField(widget=forms.HiddenInput)


class ReasonForm(OfBusinessForm):
    """A word to those who decide."""

    reason = forms.CharField(
        label=_("Reason"), max_length=500, required=False, widget=forms.Textarea({"rows": 3})
    )
