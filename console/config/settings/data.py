"""Postgres, Redis, and the folder for what lives on disk."""

from urllib.parse import parse_qsl, unquote, urlsplit

from console.config.env import stop
from console.config.running import running_database

from .base import BASE_DIR, ENV

FAIRLANE_DATA_DIR = (BASE_DIR / ENV.text("FAIRLANE_DATA_DIR", "var")).resolve()

DATABASE_URL = ENV.secret("DATABASE_URL") or running_database(FAIRLANE_DATA_DIR)
REDIS_URL = ENV.secret("REDIS_URL")


def database(url: str) -> dict[str, object]:
    """Django's settings for a ``postgresql://`` address; empty means libpq's own defaults."""
    parts = urlsplit(url)
    if url and parts.scheme not in {"postgres", "postgresql"}:
        raise stop("DATABASE_URL", f"scheme {parts.scheme!r} is not postgresql")
    try:
        port = parts.port
    except ValueError:
        raise stop("DATABASE_URL", "the port is not a number") from None
    options = dict(parse_qsl(parts.query))
    host = unquote(parts.hostname or "") or options.pop("host", "")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "fairlane",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": str(port or ""),
        # Under ASGI a persistent connection belongs to a thread that goes away with it open;
        # a pool bounds them per process and hands each back at the end of a request.
        "CONN_MAX_AGE": 0,
        # A connection of the pool may have died with a server that has come back since.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {**options, "pool": {"min_size": 0, "max_size": 8, "timeout": 10}},
    }


DATABASES = {"default": database(DATABASE_URL)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS: dict[str, dict[str, object]] = {
    "default": (
        {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [REDIS_URL]},
        }
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}
