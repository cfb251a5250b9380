"""Text Generation Inference: OpenAI's API and no priorities."""

from .base import Engine, Names


class Tgi(Engine):
    """Aborts on hang-up. It continues a last message of the assistant's as it is, having
    computed all of it again where its prefix cache is off."""

    name = "tgi"
    health_path = "/health"
    metrics = Names(running=("tgi_batch_current_size",), queue=("tgi_queue_size",))
