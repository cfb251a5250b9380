"""What all gateway tests share."""

import ssl
from collections.abc import Iterator
from functools import lru_cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def one_tls_context() -> Iterator[None]:
    """Each test makes two HTTP clients; reading the machine's certificates for each would take
    most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", lru_cache(ssl.create_default_context))
        yield
