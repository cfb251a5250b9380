"""``bills/`` and ``prices/``."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from metering.core.prices import ModelPrices, PriceList
from metering.models import Bill, BillLine, CreditNote, ModelPrice, PriceBook
from metering.services.bills import credit
from metering.services.prices import set_prices

from .base import Guarded, OfBusiness
from .permissions import EVERYBODY, FINANCE, OPERATIONS


class BillLineSerializer(serializers.ModelSerializer[BillLine]):
    """One lane and model; ``rounded`` is what counts."""

    class Meta:
        model = BillLine
        fields: ClassVar = [
            "position",
            "kind",
            "usage_month",
            "model",
            "lane",
            "requests",
            "billed_requests",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            "gpu_seconds",
            "preempted",
            "displaced",
            "charge",
            "credit",
            "surcharge",
            "rounded",
        ]
        read_only_fields: ClassVar = fields


class CreditNoteSerializer(serializers.ModelSerializer[CreditNote]):
    """Money given back on a bill."""

    class Meta:
        model = CreditNote
        fields: ClassVar = ["number", "label", "amount", "reason", "issued_at"]
        read_only_fields: ClassVar = fields


class BillSerializer(serializers.ModelSerializer[Bill]):
    """A bill without its lines."""

    class Meta:
        model = Bill
        fields: ClassVar = [
            "number",
            "label",
            "business",
            "month",
            "starts_at",
            "ends_at",
            "timezone",
            "currency",
            "total",
            "first_price",
            "last_price",
            "issued_at",
        ]
        read_only_fields: ClassVar = fields


class WholeBillSerializer(BillSerializer):
    """A bill with its lines and credit notes."""

    lines = BillLineSerializer(many=True)
    credit_notes = CreditNoteSerializer(many=True)

    class Meta(BillSerializer.Meta):
        fields: ClassVar = [*BillSerializer.Meta.fields, "lines", "credit_notes"]


class NewCreditSerializer(serializers.Serializer[Any]):
    """How much is given back, and why."""

    amount = serializers.DecimalField(max_digits=24, decimal_places=4)
    reason = serializers.CharField(max_length=500)


class Bills(OfBusiness[Bill]):
    """Bills of one's businesses, the newest first; finance sees all and gives money back."""

    resource = "bills"
    read_roles = EVERYBODY - OPERATIONS
    write_roles = FINANCE
    all_roles = FINANCE
    by_name = True
    serializer_class = BillSerializer
    lookup_field = "number"
    lookup_value_regex = "[0-9]+"
    filterset_fields: ClassVar[list[str]] = ["business", "month"]
    ordering = ("-number",)

    def rows(self) -> QuerySet[Bill]:
        """With lines and notes where one bill is asked for."""
        if self.action == "list":
            return Bill.objects.all()
        return Bill.objects.prefetch_related("lines", "credit_notes")

    @extend_schema(responses=WholeBillSerializer)
    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One bill with its lines and credit notes."""
        return Response(WholeBillSerializer(self.get_object()).data)

    @extend_schema(request=NewCreditSerializer, responses={201: CreditNoteSerializer})
    @action(detail=True, methods=["post"], url_path="credit", url_name="credit")
    def give_back(self, request: Request, number: str) -> Response:
        """Issue a credit note on the bill."""
        bill = self.get_object()
        given = NewCreditSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        note = credit(bill, **given.validated_data, actor=self.person, source=self.source)
        return Response(CreditNoteSerializer(note).data, status=status.HTTP_201_CREATED)


class ModelPriceSerializer(serializers.ModelSerializer[ModelPrice]):
    """Tokens per million; ``cached`` null: as other prompt tokens; P0 to P2 multiply."""

    class Meta:
        model = ModelPrice
        fields: ClassVar = [
            "model",
            "prompt",
            "cached",
            "completion",
            "gpu_second",
            "request",
            "p0",
            "p1",
            "p2",
        ]

    def prices(self, given: Mapping[str, Any]) -> ModelPrices:
        """As the service takes them."""
        values = {name: value for name, value in given.items() if name != "model"}
        lanes = tuple(values.pop(lane, Decimal(1)) for lane in ("p0", "p1", "p2"))
        return ModelPrices(**values, multipliers=(lanes[0], lanes[1], lanes[2]))


class PriceBookSerializer(serializers.ModelSerializer[PriceBook]):
    """One version of all prices. The empty model name stands for all models not named."""

    prices = ModelPriceSerializer(many=True)

    class Meta:
        model = PriceBook
        fields: ClassVar = [
            "version",
            "starts_at",
            "note",
            "preemption_credit",
            "preemption_surcharge",
            "prices",
            "created_at",
        ]
        read_only_fields: ClassVar = ["version", "created_at"]
        extra_kwargs: ClassVar = {
            "starts_at": {"required": False, "allow_null": True, "validators": []}
        }


class Prices(mixins.ListModelMixin, mixins.RetrieveModelMixin, Guarded[PriceBook]):
    """All versions of the prices, the newest first; finance adds versions."""

    resource = "prices"
    read_roles = EVERYBODY
    write_roles = FINANCE
    serializer_class = PriceBookSerializer
    queryset = PriceBook.objects.prefetch_related("prices")
    ordering = ("-version",)

    @extend_schema(request=PriceBookSerializer, responses={201: PriceBookSerializer})
    def create(self, request: Request) -> Response:
        """Add a version of all prices, from ``starts_at`` on or at once."""
        given = PriceBookSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        asked = given.validated_data
        of = ModelPriceSerializer()
        prices = PriceList(
            models={each.get("model", ""): of.prices(each) for each in asked["prices"]},
            preemption_credit=asked.get("preemption_credit", Decimal(0)),
            preemption_surcharge=asked.get("preemption_surcharge", Decimal(0)),
        )
        book = set_prices(
            prices,
            starts_at=asked.get("starts_at"),
            note=asked.get("note", ""),
            actor=self.person,
            source=self.source,
        )
        return Response(PriceBookSerializer(book).data, status=status.HTTP_201_CREATED)
