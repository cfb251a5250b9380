"""Issuing and narrowing tier credentials, and asking for a better grade."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from console.templatetags.figures import GRADES
from metering.models import Business, Grade, Lane, TierCredential

from .plain import OfBusinessForm, PlainForm, ReasonForm

LIFETIMES = [
    (1, _("1 hour")),
    (24, _("24 hours")),
    (24 * 7, _("7 days")),
    (24 * 30, _("30 days")),
    (24 * 90, _("90 days")),
    (24 * 365, _("365 days")),
]


def grades_up_to(best: str) -> list[tuple[str, Any]]:
    """That grade and those below it, with their names."""
    held = Grade.values[Grade.values.index(best) :]
    return [(value, GRADES[value]) for value in held]


def lanes_up_to(best: str) -> list[tuple[str, str]]:
    """That lane and those below it."""
    return [(lane, lane) for lane in Lane.values[Lane.values.index(best) :]]


class TermsForm(PlainForm):
    """What a credential grants."""

    grade = forms.ChoiceField(label=_("Grade"))
    ceiling = forms.ChoiceField(
        label=_("Ceiling"), help_text=_("The most urgent lane that it reaches.")
    )
    svc = forms.CharField(
        label=_("Service"),
        max_length=80,
        required=False,
        help_text=_("The one service that it is for; blank: any."),
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    models = forms.MultipleChoiceField(
        label=_("Models"),
        required=False,
        help_text=_("None chosen: all of them."),
        widget=forms.CheckboxSelectMultiple,
    )
    hours = forms.TypedChoiceField(
        label=_("Valid for"), coerce=int, choices=LIFETIMES, initial=24 * 30
    )

    def narrow_to(self, grade: str, ceiling: str, models: Sequence[str]) -> None:
        """Offer nothing beyond these."""
        choices = {
            "grade": grades_up_to(grade),
            "ceiling": lanes_up_to(ceiling),
            "models": [(name, name) for name in models],
        }
        for name, offered in choices.items():
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = offered
        if not models:
            del self.fields["models"]

    def terms(self) -> dict[str, Any]:
        """As the services take them."""
        chosen = self.cleaned_data.get("models")
        return {
            "grade": self.cleaned_data["grade"],
            "ceiling": self.cleaned_data["ceiling"],
            "svc": self.cleaned_data["svc"],
            "models": chosen or None,
            "lifetime": timedelta(hours=self.cleaned_data["hours"]),
        }


class IssueForm(TermsForm, OfBusinessForm):
    """A new credential of a business, up to what the business itself has."""

    def __init__(self, business: Business, models: Sequence[str], *args: Any, **kw: Any) -> None:
        super().__init__(*args, **kw)
        self.narrow_to(business.grade, business.ceiling, models)
        self.fields["business"].initial = business.name


class NarrowForm(TermsForm):
    """A credential that grants a part of another."""

    def __init__(self, parent: TierCredential, models: Sequence[str], *args: Any, **kw: Any):
        super().__init__(*args, **kw)
        self.narrow_to(parent.grade, parent.ceiling, models)
        self.fields["hours"] = forms.TypedChoiceField(
            label=_("Valid for"),
            coerce=int,
            choices=[(0, _("As long as the one it comes from")), *LIFETIMES],
            initial=0,
        )
        if parent.svc:
            # The parent is for this one alone.
            del self.fields["svc"]

    def terms(self) -> dict[str, Any]:
        """As the services take them: what is not chosen is the parent's."""
        hours = self.cleaned_data["hours"]
        return {
            "grade": self.cleaned_data["grade"],
            "ceiling": self.cleaned_data["ceiling"],
            "svc": self.cleaned_data.get("svc", ""),
            "models": self.cleaned_data.get("models") or None,
            "lifetime": timedelta(hours=hours) if hours else None,
        }


class AskGradeForm(ReasonForm):
    """A better grade, and why."""

    grade = forms.ChoiceField(label=_("Grade"))

    field_order = ("business", "grade", "reason")

    def __init__(self, business: Business, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        better = Grade.values[: Grade.values.index(business.grade)]
        field = self.fields["grade"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(value, GRADES[value]) for value in reversed(better)]
        self.fields["business"].initial = business.name
