"""Paths, addresses, language and static files."""

from pathlib import Path

from console.config.env import Env

ENV = Env()
BASE_DIR = Path(__file__).resolve().parents[3]

DEBUG = False
ROOT_URLCONF = "console.config.urls"
ASGI_APPLICATION = "console.config.asgi.application"
ALLOWED_HOSTS = ENV.names("ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]"))

LANGUAGE_CODE = "en"
# Only what is translated in full: a page half in one language is worse than one in the other.
# Each is named in itself, for those who can't read the page they are on.
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LANGUAGE_COOKIE_HTTPONLY = True
LANGUAGE_COOKIE_SAMESITE = "Lax"
# Catalogs are kept as text and compiled at build time.
LOCALE_SOURCES = BASE_DIR / "console" / "locale"
LOCALE_PATHS = [BASE_DIR / "build" / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "build" / "static"
NODE_MODULES = BASE_DIR / "node_modules"
STATICFILES_DIRS = [
    BASE_DIR / "static",
    ("vendor/tabler", NODE_MODULES / "@tabler" / "core" / "dist"),
    ("vendor/htmx", NODE_MODULES / "htmx.org" / "dist"),
    ("vendor/uplot", NODE_MODULES / "uplot" / "dist"),
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.navigation.menu",
            ],
        },
    },
]
