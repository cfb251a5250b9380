"""Pools and replicas. What a field may hold is the fleet file's affair: these only carry it."""

import json
from typing import Any

from crispy_forms.helper import FormHelper
from django import forms
from django.utils.translation import gettext_lazy as _

from metering.models import Lane
from scheduler.core.policy import Problem
from scheduler.fleet_document import FleetDocument
from scheduler.fleet_file import FleetError, parse_fleet
from scheduler.models import Pool, Replica

LEVELS = [(str(level), str(level)) for level in range(10)]


class EntryForm(forms.Form):
    """One entry of a fleet document. ``part`` is the document's."""

    part = ""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.helper = FormHelper()
        self.helper.form_tag = False

    def entry(self) -> dict[str, object]:
        """The entry in the file's form; what is empty is left out."""
        return dict(self.cleaned_data)

    def document(self) -> FleetDocument | None:
        """A document with this entry; None, with errors at the fields, where it is none."""
        try:
            return parse_fleet(json.dumps({self.part: [self.entry()]}))
        except FleetError as error:
            self.take(error)
            return None

    def take(self, error: FleetError) -> None:
        """Show what is wrong with the entry at its fields."""
        for problem in error.problems:
            self.add_error(self._field(problem), problem.message)

    def _field(self, problem: Problem) -> str | None:
        name = problem.path.rpartition("].")[2].partition(".")[0].partition("[")[0]
        name = {"levels": "most_level"}.get(name, name)
        return name if name in self.fields else None


class PoolForm(EntryForm):
    """A pool's name, kind and lanes."""

    part = "pools"

    name = forms.CharField(label=_("Name"), max_length=63)
    kind = forms.ChoiceField(
        label=_("Kind"),
        choices=[("elastic", _("Elastic: shared by lanes")), ("dedicated", _("Dedicated"))],
    )
    lanes = forms.MultipleChoiceField(
        label=_("Lanes"),
        choices=Lane.choices,
        initial=Lane.values,
        widget=forms.CheckboxSelectMultiple,
    )


class ReplicaForm(EntryForm):
    """A model server: where it is, what it holds and how much it takes."""

    part = "replicas"

    name = forms.CharField(label=_("Name"), max_length=200)
    url = forms.CharField(
        label=_("Address"), max_length=500, help_text=_("For example http://10.0.0.1:8000")
    )
    engine = forms.ChoiceField(label=_("Engine"), choices=Replica.Engine.choices)
    pool = forms.ChoiceField(label=_("Pool"))
    slots = forms.IntegerField(label=_("Slots"), initial=8, help_text=_("Requests at once."))
    gpus = forms.FloatField(label=_("GPUs"), initial=1)
    kv_tokens = forms.IntegerField(
        label=_("KV tokens"),
        required=False,
        help_text=_("Tokens of context held at once; empty: not limited."),
    )
    models = forms.CharField(
        label=_("Models"),
        help_text=_("One a line: the public name, =, the name at the server."),
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    service_class = forms.ChoiceField(
        label=_("Service class"), choices=Replica.ServiceClass.choices, initial="medium"
    )
    least_level = forms.ChoiceField(label=_("From level"), choices=LEVELS, initial="0")
    most_level = forms.ChoiceField(label=_("To level"), choices=LEVELS, initial="9")
    path = forms.ChoiceField(label=_("Path"), choices=Replica.Path.choices)
    engine_priority = forms.BooleanField(label=_("Tell the engine the priority"), required=False)
    token_file = forms.CharField(
        label=_("File with the server's key"), max_length=500, required=False
    )
    metrics_url = forms.CharField(label=_("Metrics address"), max_length=500, required=False)
    dcgm_url = forms.CharField(
        label=_("GPU metrics address (DCGM)"), max_length=500, required=False
    )
    kv_events_url = forms.CharField(
        label=_("Cache events address"),
        max_length=500,
        required=False,
        help_text=_(
            "Where vLLM or SGLang publish KV cache events, for example tcp://10.0.0.1:5557"
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pool = self.fields["pool"]
        assert isinstance(pool, forms.ChoiceField), "it was declared as one"
        pool.choices = [(name, name) for name in Pool.objects.values_list("name", flat=True)]

    def clean_models(self) -> dict[str, str]:
        """Public names and what the server calls them."""
        found = {}
        for line in self.cleaned_data["models"].splitlines():
            public, _equals, served = (part.strip() for part in line.partition("="))
            if public:
                found[public] = served or public
        return found

    def entry(self) -> dict[str, object]:
        """The entry of ``replicas``."""
        given = self.cleaned_data
        names = ("name", "url", "engine", "pool", "slots", "gpus", "kv_tokens", "models")
        more = ("service_class", "path", "token_file", "metrics_url", "dcgm_url", "kv_events_url")
        found = {name: given[name] for name in (*names, *more) if given[name] not in (None, "")}
        found["levels"] = [int(given["least_level"]), int(given["most_level"])]
        found["engine_priority"] = given["engine_priority"]
        return found


def filled(row: Replica) -> dict[str, object]:
    """What a replica's form shows at first."""
    found: dict[str, object] = {
        name: getattr(row, name)
        for name in ReplicaForm.base_fields
        if name not in {"pool", "models"}
    }
    found["pool"] = row.pool.name
    found["models"] = "\n".join(f"{public} = {served}" for public, served in row.models.items())
    return found
