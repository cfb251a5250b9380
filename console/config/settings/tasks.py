"""Celery: on Redis where there is one, on a folder otherwise; and what runs when."""

from celery.schedules import crontab

from .data import FAIRLANE_DATA_DIR, REDIS_URL
from .fairlane import BILLING_TZ

CELERY_FOLDER = FAIRLANE_DATA_DIR / "celery"
CELERY_BROKER_URL = REDIS_URL or "filesystem://localhost"
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, object] = (
    {"global_keyprefix": "fairlane:celery:"}
    if REDIS_URL
    else {
        "data_folder_in": str(CELERY_FOLDER / "queue"),
        "data_folder_out": str(CELERY_FOLDER / "queue"),
        "control_folder": str(CELERY_FOLDER / "control"),
    }
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_DEFAULT_QUEUE = "fairlane"
# What came of a task is in its own tables.
CELERY_TASK_IGNORE_RESULT = True
# Twice does no harm, never does.
CELERY_TASK_ACKS_LATE = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# Nobody steers workers from afar; on a folder each such message would be a file.
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_ENABLE_UTC = True
CELERY_TIMEZONE = BILLING_TZ
# A task that nobody took up before its next turn is not worth taking up any more.
CELERY_BEAT_SCHEDULE = {
    "settlement": {
        "task": "metering.settle",
        # Shortly after midnight, and again for what was missed or came late.
        "schedule": crontab(minute="5,15,25,35,45,55"),
        "options": {"expires": 600},
    },
    "month close": {
        "task": "metering.close_months",
        "schedule": crontab(minute="20,50"),
        "options": {"expires": 1800},
    },
    "reconciliation": {
        "task": "metering.reconcile",
        "schedule": crontab(minute="40"),
        "options": {"expires": 3600},
    },
    "budget alerts": {
        "task": "metering.budget_alerts",
        "schedule": crontab(minute="*/5"),
        "options": {"expires": 300},
    },
    "retention": {
        "task": "metering.keep_house",
        "schedule": crontab(minute="30"),
        "options": {"expires": 3600},
    },
    "months closed by hand": {
        "task": "metering.finish_closes",
        # The backstop, as below.
        "schedule": 15.0,
        "options": {"expires": 15},
    },
    "archives": {
        "task": "metering.make_archives",
        # The backstop for a request that the broker did not take.
        "schedule": 15.0,
        "options": {"expires": 15},
    },
}
