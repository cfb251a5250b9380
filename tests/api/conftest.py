"""The same people as the pages have, and programs that act for them."""

from collections.abc import Callable
from datetime import timedelta

import django
import pytest

# This file is read before pytest-django sets Django up when it is named on the command line.
django.setup()

from rest_framework.test import APIClient  # noqa: E402

from console.api.routes import scopes_of  # noqa: E402
from console.services.tokens import create_token  # noqa: E402
from tests.console.conftest import People, english, people, quick_passwords  # noqa: E402

__all__ = ["english", "people", "quick_passwords"]

Program = Callable[..., APIClient]


@pytest.fixture
def program(people: People) -> Program:
    """A client with a management token of the named person, for some scopes or all."""

    def make(name: str, *scopes: str) -> APIClient:
        user = people.named(name)
        allowed = scopes_of(user.role)
        _row, secret = create_token(
            user, "test", scopes=scopes or allowed, allowed=allowed, lifetime=timedelta(hours=1)
        )
        client = APIClient()
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        return client

    return make
