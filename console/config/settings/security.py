"""Sign-in, sessions, cookies and the secret key."""

from console.config.secrets import kept_secret

from .base import ENV
from .data import FAIRLANE_DATA_DIR

SECRET_KEY = ENV.secret("SECRET_KEY") or kept_secret(FAIRLANE_DATA_DIR / "secret_key")

AUTH_USER_MODEL = "console.User"
AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/accounts/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/accounts/login/"

# A proxy that ends TLS says so. Without a proxy anybody could say it of their own request, and
# gain stricter checks and cookies that their own browser keeps for TLS alone.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
# "Secure" is put on every cookie of a request that came over TLS (console/middleware.py): one
# installation is reached with and without it.
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
