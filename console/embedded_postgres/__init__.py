"""A PostgreSQL server for one installation, from the binaries that come with the packages."""

from .errors import EmbeddedPostgresError
from .server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "EmbeddedPostgresError"]
