"""llama.cpp's server: no priorities, and hang-ups noticed on streams alone."""

from .base import Engine


class LlamaCpp(Engine):
    """Plain calls run to their end when the caller has left, so all are made as streams;
    after a stream it closes the connection although it says keep-alive."""

    name = "llamacpp"
    health_path = "/health"
    aborts_plain = False
    reuses_connections = False
