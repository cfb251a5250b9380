"""The Open Inference Protocol, as Triton and KServe speak it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from .base import Engine, Names

_parameters = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Oip(Engine):
    """Triton's priorities begin with 1, the most urgent; 0 stands for the model's default, so
    it is never sent. They are a parameter of the request, not a field of its own."""

    name = "oip"
    chats = False
    health_path = "/v2/health/ready"
    metrics = Names(
        queue=("nv_inference_pending_request_count",),
        gpu=("nv_gpu_utilization",),
    )

    def priority(self, level: int) -> int:
        """1-10: level 0 is 1."""
        return level + 1

    def prioritised(self, number: int | None, fields: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """The request's parameters, the caller's own priority replaced or left out."""
        given = fields.get("parameters")
        try:
            parameters: dict[str, Any] = {} if given is None else dict(_parameters(given))
        except (msgspec.ValidationError, msgspec.DecodeError):
            # Not an object: the server will say what it thinks of that.
            return {}
        asked = parameters.pop("priority", None) is not None
        if number is not None:
            return {"parameters": {**parameters, "priority": number}}
        return {"parameters": parameters} if asked else {}
