"""Outgoing mail; without SMTP_URL there is none."""

from urllib.parse import unquote, urlsplit

from console.config.env import stop

from .base import ENV

SMTP_URL = ENV.secret("SMTP_URL")
DEFAULT_FROM_EMAIL = ENV.text("MAIL_FROM", "fairlane@localhost")
PORTS = {"smtp": 25, "smtp+tls": 587, "smtps": 465}


def mail(url: str) -> dict[str, object]:
    """Django's mail settings for ``smtp://``, ``smtp+tls://`` (STARTTLS) or ``smtps://``."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise stop("SMTP_URL", "the port is not a number") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise stop("SMTP_URL", "must look like smtp://host, smtp+tls://host or smtps://host")
    return {
        "EMAIL_BACKEND": "django.core.mail.backends.smtp.EmailBackend",
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or PORTS[parts.scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_TLS": parts.scheme == "smtp+tls",
        "EMAIL_USE_SSL": parts.scheme == "smtps",
        "EMAIL_TIMEOUT": 15,
    }


EMAIL_BACKEND = "django.core.mail.backends.dummy.EmailBackend"
if SMTP_URL:
    globals().update(mail(SMTP_URL))
