"""Months, prices and credit notes."""

from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from django import forms
from django.forms import BaseFormSet, formset_factory
from django.utils.translation import gettext_lazy as _

from metering.core.prices import ModelPrices, PriceList
from metering.models.prices import MULTIPLIER_PLACES, PRICE_PLACES

from .plain import PlainForm

# The fields of a model's prices that are multipliers, in lane order.
LANES = ("p0", "p1", "p2")


def month_in(text: str) -> date | None:
    """The first day of a month written as 2026-11; None for anything else."""
    try:
        return datetime.strptime(text, "%Y-%m").date()  # noqa: DTZ007 - a month has no zone
    except ValueError:
        return None


def _price(**given: Any) -> forms.DecimalField:
    return forms.DecimalField(
        min_value=0,
        max_digits=18,
        decimal_places=PRICE_PLACES,
        widget=forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}),
        **given,
    )


def _multiplier(label: Any) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        min_value=0,
        max_digits=9,
        decimal_places=MULTIPLIER_PLACES,
        initial=Decimal(1),
        widget=forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}),
    )


class PriceBookForm(PlainForm):
    """What belongs to a version as a whole."""

    starts_at = forms.DateTimeField(
        label=_("Valid from (UTC)"),
        required=False,
        help_text=_("Blank: from now on."),
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"],
    )
    preemption_credit = _price(
        label=_("Credit for each pause suffered"), initial=Decimal(0), required=False
    )
    preemption_surcharge = _price(
        label=_("Surcharge for each pause caused"), initial=Decimal(0), required=False
    )
    note = forms.CharField(label=_("Note"), max_length=200, required=False)


class ModelPriceForm(PlainForm):
    """One model's prices."""

    model = forms.CharField(
        label=_("Model"),
        max_length=200,
        required=False,
        widget=forms.TextInput({"autocomplete": "off"}),
    )
    prompt = _price(label=_("Prompt tokens, per million"), initial=Decimal(0))
    cached = _price(label=_("Cached prompt tokens, per million"), required=False)
    completion = _price(label=_("Completion tokens, per million"), initial=Decimal(0))
    gpu_second = _price(label=_("GPU-second"), initial=Decimal(0))
    request = _price(label=_("Request"), initial=Decimal(0))
    p0 = _multiplier(_("Times in P0"))
    p1 = _multiplier(_("Times in P1"))
    p2 = _multiplier(_("Times in P2"))

    def prices(self) -> ModelPrices:
        """As the service takes them."""
        given = dict(self.cleaned_data)
        lanes = [given.pop(lane) for lane in LANES]
        wanted = ("prompt", "cached", "completion", "gpu_second", "request")
        values = {name: given[name] for name in wanted}
        return ModelPrices(**values, multipliers=(lanes[0], lanes[1], lanes[2]))


class ModelPriceSet(BaseFormSet[ModelPriceForm]):
    """All models of a version; the one without a name is for all that are not named."""

    def add_fields(self, form: ModelPriceForm, index: int | None) -> None:
        """With a word for what the box at the end of a row does."""
        super().add_fields(form, index)
        form.fields["DELETE"].label = _("Remove")

    def clean(self) -> None:
        """No model twice."""
        names = [form.cleaned_data.get("model", "") for form in self.kept()]
        if len(names) != len(set(names)):
            raise forms.ValidationError(_("A model is there twice."))

    def kept(self) -> list[ModelPriceForm]:
        """Rows that are filled in and not taken out; of a set that was found valid."""
        return [
            form
            for form in self.forms
            if hasattr(form, "cleaned_data")
            and (form.has_changed() or form.initial)
            and not form.cleaned_data.get("DELETE")
        ]


ModelPriceForms: type[ModelPriceSet] = formset_factory(  # type: ignore[assignment]
    ModelPriceForm, formset=ModelPriceSet, extra=1, can_delete=True
)


def price_list(book: PriceBookForm, rows: ModelPriceSet) -> PriceList:
    """Both, valid, as one version."""
    return PriceList(
        models={form.cleaned_data["model"]: form.prices() for form in rows.kept()},
        preemption_credit=book.cleaned_data["preemption_credit"] or Decimal(0),
        preemption_surcharge=book.cleaned_data["preemption_surcharge"] or Decimal(0),
    )


def initial_prices(held: PriceList) -> list[Mapping[str, object]]:
    """The rows of the form for a version, to be changed into the next one."""
    return [
        {
            "model": model,
            "prompt": of.prompt,
            "cached": of.cached,
            "completion": of.completion,
            "gpu_second": of.gpu_second,
            "request": of.request,
            **dict(zip(LANES, of.multipliers, strict=True)),
        }
        for model, of in sorted(held.models.items())
    ]


class CreditNoteForm(PlainForm):
    """Money back on a bill."""

    bill = forms.CharField(
        label=_("Bill"), help_text=_("Its number, such as B-000012."), max_length=20
    )
    amount = forms.DecimalField(
        label=_("Amount"),
        max_digits=24,
        decimal_places=4,
        widget=forms.TextInput({"inputmode": "decimal", "autocomplete": "off"}),
    )
    reason = forms.CharField(label=_("Reason"), max_length=500, widget=forms.Textarea({"rows": 3}))

    def clean_bill(self) -> int:
        """The number without what is written before it."""
        text = self.cleaned_data["bill"].strip().upper().removeprefix("B-")
        if not text.isascii() or not text.isdigit():
            raise forms.ValidationError(_("There is no such bill."))
        return int(text)
