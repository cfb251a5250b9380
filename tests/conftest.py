"""One Postgres for the test session, on a temporary folder.

Its address is fixed before Django reads its settings; the server itself starts with the
first test that needs a database, so that pure tests pay nothing. A DATABASE_URL that is set
already is used as it is.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest
from psycopg import sql
from pytest_django import DjangoDbBlocker
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from console.embedded_postgres import EmbeddedPostgres

pytest_plugins = ["tests.support.engine_fixtures"]
# An optional stage of its own, `make test-vllm`: its server takes gigabytes.
collect_ignore = [] if os.environ.get("FAIRLANE_VLLM") else ["vllm"]

# Open to enter, unlike pytest's own: as root the server runs as another user.
SESSION_DIR = Path(tempfile.mkdtemp(prefix="fairlane-tests-"))
SESSION_DIR.chmod(0o711)

SITE = "tests/browser"
WORKER = "PYTEST_XDIST_WORKER" in os.environ
EMBEDDED: EmbeddedPostgres | None = None
if not os.environ.get("DATABASE_URL"):
    EMBEDDED = EmbeddedPostgres(SESSION_DIR / "postgres", durable=False)
    os.environ["DATABASE_URL"] = EMBEDDED.url
os.environ["FAIRLANE_DATA_DIR"] = str(SESSION_DIR / "data")
os.environ["DJANGO_SETTINGS_MODULE"] = "console.config.settings"
for name in ("REDIS_URL", "LOG_LEVEL", "LOG_FORMAT", "METRICS_TOKEN"):
    os.environ.pop(name, None)

from django.conf import settings  # noqa: E402 - reads the environment made above
from django.db import connection, connections  # noqa: E402
from django.db.backends.postgresql.base import DatabaseWrapper  # noqa: E402
from django.db.models.signals import post_migrate  # noqa: E402

from console.translations.catalogs import compile_all  # noqa: E402 - as above

assert settings.FAIRLANE_DATA_DIR == SESSION_DIR / "data", "settings were read too early"
# Passwords are slow to check on purpose; tests check hundreds.
settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Every test's client is a server of its own to Django: none shall list all static files first.
settings.SERVESTATIC_AUTOREFRESH = True
# Pages are looked at in the languages as they are in the sources now.
if not WORKER:
    compile_all(settings.LOCALE_SOURCES, settings.LOCALE_PATHS[0])

# How fast examples are made says what else the machine does.
SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile("usual", deadline=None, suppress_health_check=SLOW)
hypothesis.settings.register_profile(
    "long", max_examples=20_000, deadline=None, suppress_health_check=SLOW
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "usual"))


def pytest_configure(config: pytest.Config) -> None:
    """Workers have folders and servers of their own: they inherit nothing of what stands above."""
    if config.getoption("numprocesses", None):
        os.environ.pop("DJANGO_SETTINGS_MODULE")
        os.environ.pop("FAIRLANE_DATA_DIR")
        if EMBEDDED is not None:
            os.environ.pop("DATABASE_URL")


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """What a file's tests share is made once: they stay in one worker, and all that need the
    whole site in one."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return SITE if path.startswith(f"{SITE}/") else path


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """The workers' tests."""
    return ByFile(config, log)


def pytest_unconfigure() -> None:
    """Stop the server after everything, and leave nothing behind."""
    if EMBEDDED is not None:
        EMBEDDED.stop()
    shutil.rmtree(SESSION_DIR, ignore_errors=True)


@pytest.fixture(scope="session")
def database_url() -> str:
    """The address of a running server's ``fairlane`` database (Django's tests use their own)."""
    if EMBEDDED is not None:
        EMBEDDED.start()
    return os.environ["DATABASE_URL"]


@pytest.fixture(scope="session")
def django_db_modify_db_settings(database_url: str) -> None:
    """pytest-django asks for this before it makes its database: the server must run by then."""


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> None:
    """Tests that commit are cleaned up after by emptying tables, bills too. Django would make
    all permissions anew each time, which takes ten times as long."""
    post_migrate.disconnect(dispatch_uid="django.contrib.auth.management.create_permissions")
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        name = connection.ops.quote_name(str(connection.settings_dict["NAME"]))
        cursor.execute(f"ALTER DATABASE {name} SET fairlane.may_truncate = 'yes'")
    with django_db_blocker.unblock():
        # Sessions that are open do not hear of it.
        wrapper = connections["default"]
        assert isinstance(wrapper, DatabaseWrapper)
        wrapper.close()
        wrapper.close_pool()


@pytest.fixture
def fresh_database(database_url: str) -> Iterator[str]:
    """The address of an empty database, for a test that runs whole processes against it."""
    name = f"fresh_{os.urandom(4).hex()}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield database_url.replace("/fairlane?", f"/{name}?")
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))
