"""Logging: one line a record, JSON in production, secrets cut out by the formatter."""

from .base import ENV

LOG_LEVEL = ENV.choice("LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR"))
LOG_FORMAT = ENV.choice("LOG_FORMAT", "json", ("json", "console"))

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {"()": "metering.logs.JsonFormatter"},
        "console": {"()": "metering.logs.ConsoleFormatter"},
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": LOG_FORMAT}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    "loggers": {
        # Chatty below their warnings, and of no use to an operator.
        "asyncio": {"level": "WARNING"},
        "daphne": {"level": "WARNING"},
        "httpx": {"level": "WARNING"},
        "httpcore": {"level": "WARNING"},
        # Three lines for each task, several a minute.
        "celery.beat": {"level": "WARNING"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
