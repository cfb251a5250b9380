"""Signing in."""

import ipaddress
import math
from typing import Any

from crispy_forms.helper import FormHelper
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.utils.translation import ngettext

from console.services.sign_in import attempt_succeeded, begin_attempt


class SignInForm(AuthenticationForm):
    """Django's own, behind a throttle; ``wait_s`` says how long somebody is held off."""

    def __init__(self, request: HttpRequest | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(request, *args, **kwargs)
        self.wait_s = 0
        self.helper = FormHelper()
        self.helper.form_tag = False

    def clean(self) -> dict[str, Any]:
        """Check the password, unless there were too many wrong ones."""
        username, password = self.cleaned_data.get("username"), self.cleaned_data.get("password")
        if username is None or not password:
            return super().clean()
        address = address_of(self.request)
        self.wait_s = begin_attempt(username, address)
        if self.wait_s:
            minutes = math.ceil(self.wait_s / 60)
            raise ValidationError(
                ngettext(
                    "Too many attempts. Try again in %(minutes)d minute.",
                    "Too many attempts. Try again in %(minutes)d minutes.",
                    minutes,
                ),
                code="throttled",
                params={"minutes": minutes},
            )
        cleaned = super().clean()
        attempt_succeeded(username, address)
        return cleaned


def address_of(request: HttpRequest | None) -> str:
    """Where the request came from; the unspecified address if the server doesn't say."""
    raw = "" if request is None else str(request.META.get("REMOTE_ADDR", ""))
    try:
        return str(ipaddress.ip_address(raw.partition("%")[0]))
    except ValueError:
        return "::"
