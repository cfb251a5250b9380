"""Who belongs to a business."""

from django import forms
from django.utils.translation import gettext_lazy as _

from console.models import User
from metering.models import Membership

from .plain import OfBusinessForm

ROLES = [
    (Membership.Role.MEMBER, _("Member: looks")),
    (Membership.Role.OWNER, _("Owner: looks and changes")),
]


class AddMemberForm(OfBusinessForm):
    """Somebody who has an account already, by user name or mail address."""

    person = forms.CharField(
        label=_("User name or mail address"),
        max_length=254,
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    role = forms.ChoiceField(label=_("Role"), choices=ROLES)

    def clean_person(self) -> User:
        """The account; the same words for none and for one of another kind."""
        given = self.cleaned_data["person"].strip()
        owners = User.objects.filter(role=User.Role.OWNER, is_active=True)
        found = owners.filter(username=given).first()
        if found is None and "@" in given:
            by_mail = list(owners.filter(email__iexact=given)[:2])
            found = by_mail[0] if len(by_mail) == 1 else None
        if found is None:
            raise forms.ValidationError(
                _("There is no such account. Administrators make accounts.")
            )
        return found
