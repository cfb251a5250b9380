"""What the live parts of a page need from the server: words, and which figures to show."""

from django.utils.translation import gettext as _


def live_context() -> dict[str, object]:
    """Template context for a page with live parts."""
    return {
        "lanes": [
            ("P0", _("most urgent")),
            ("P1", _("standard")),
            ("P2", _("can wait")),
        ],
        "main_figures": [
            ("queued", _("Waiting")),
            ("running", _("Running")),
            ("per_s", _("Finished / s")),
        ],
        "wait_figures": [
            ("p50", _("Wait P50")),
            ("p95", _("Wait P95")),
            ("p99", _("Wait P99")),
        ],
        "total_figures": [
            ("finished", _("Finished, 15 min")),
            ("refused", _("Refused, 15 min")),
            ("paused", _("Paused, 15 min")),
            ("promoted", _("Promoted, 15 min")),
        ],
        "charts": [
            ("queued", _("Waiting"), _("Chart: requests waiting by lane, last 15 minutes")),
            ("waits", _("Wait P95"), _("Chart: P95 wait by lane, last 15 minutes")),
            (
                "finished",
                _("Finished per second"),
                _("Chart: requests finished per second by lane, last 15 minutes"),
            ),
        ],
        "live_texts": _texts(),
    }


def _texts() -> dict[str, object]:
    """By status (``%s`` is the time of the last numbers), replica state and kind of decision."""
    return {
        "connecting": _("Connecting…"),
        "live": _("Live"),
        "silent": _("The scheduler is silent. Numbers are from %s."),
        "cut": _("Connection lost, trying again. Numbers are from %s."),
        "over": _("Your session is over. Numbers are from %s."),
        "switched": _("Another window has switched to a different business. Reload this page."),
        "never": _("never"),
        "states": {
            "ready": _("Ready"),
            "down": _("Down"),
            "draining": _("Draining"),
            "unknown": _("Unknown"),
        },
        "wanted": _("%s cards wanted, %s ready"),
        "breakers": {
            "closed": _("Closed"),
            "open": _("Open: nothing goes there until a probe finds it well"),
            "partly": _("Open for %s: only other models go there"),
            "busy": _("Busy: it asked to be left alone for a moment"),
        },
        "kinds": _kinds(),
    }


def _kinds() -> dict[str, object]:
    """By kind of decision."""
    return {
        "promote": _("Promoted: it has waited too long"),
        "suspended": _("Business held back: it keeps failing"),
        "restored": _("Business let in again"),
        "broken": _("Replica left alone: it keeps failing"),
        "mended": _("Replica in use again"),
        "pressed": _("Backpressure: urgent work for a model waits too long"),
        "relieved": _("Backpressure is over"),
        "adjusted": _("Weight or level adjusted"),
        "scaled": _("Another number of cards is wanted"),
        "throttled": _("Rates of P2 slowed, or in full again"),
        "no_help": _("More cards have not helped"),
        "degrade": _("A lighter model answers"),
        "path_cold": _("Served by cold replicas"),
        "path_hot": _("Served by hot replicas again"),
        "cold_start": _("Started on a card: urgent work waits for the model"),
        "warm": _("The model takes urgent work"),
        "cold_failed": _("The model could not be started"),
        "cold_over": _("No card is kept for the model any more"),
        "dispatch": _("Started"),
        "finish": _("Finished"),
        "refuse": _("Refused"),
        "expire": _("Timed out in the queue"),
        "retry": _("Moved to another replica"),
        "replica": _("Replica"),
        "preempt": _("Paused for a more urgent one"),
    }
