"""People of every kind around two businesses."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import django
import pytest
from channels.layers import InMemoryChannelLayer
from django.core.cache import cache
from django.test import Client
from django.utils import translation
from pytest_django.fixtures import Settings

# This file is read before pytest-django sets Django up when it is named on the command line.
django.setup()

from console.models import User  # noqa: E402
from metering.models import Business, Membership  # noqa: E402

PASSWORD = "correct horse battery"


@dataclass
class People:
    """``owner`` owns alpha and ``colleague`` looks at it; ``outsider`` owns beta."""

    alpha: Business
    beta: Business
    owner: User
    colleague: User
    outsider: User
    operator: User
    finance: User
    admin: User

    def named(self, name: str) -> User:
        user = getattr(self, name)
        assert isinstance(user, User)
        return user


def person(name: str, role: str = User.Role.OWNER, **fields: object) -> User:
    user = User(username=name, role=role, **fields)
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def people(db: None) -> People:
    alpha, beta = (Business.objects.create(name=name) for name in ("alpha", "beta"))
    found = People(
        alpha=alpha,
        beta=beta,
        owner=person("owner"),
        colleague=person("colleague"),
        outsider=person("outsider"),
        operator=person("operator", User.Role.OPERATOR),
        finance=person("finance", User.Role.FINANCE),
        admin=person("admin", User.Role.ADMIN, is_staff=True, is_superuser=True),
    )
    Membership.objects.create(user=found.owner, business=alpha, role="owner")
    Membership.objects.create(user=found.colleague, business=alpha, role="member")
    Membership.objects.create(user=found.outsider, business=beta, role="owner")
    return found


@pytest.fixture
def signed_in(people: People) -> Callable[[str], Client]:
    """A browser in which the named person is signed in."""

    def open_browser(name: str) -> Client:
        client = Client()
        client.force_login(people.named(name))
        return client

    return open_browser


@pytest.fixture
def layer() -> InMemoryChannelLayer:
    return InMemoryChannelLayer()


@pytest.fixture(autouse=True)
def quick_passwords(settings: Settings) -> None:
    """The slow hash is Django's affair; here it would only take time."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """A page's figures are this test's own."""
    cache.clear()


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    with translation.override("en"):
        yield
