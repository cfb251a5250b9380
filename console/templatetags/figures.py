"""How numbers read on a page."""

from datetime import UTC, datetime
from decimal import Decimal

from django import template
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

register = template.Library()

OUTCOMES = {
    "ok": _lazy("Answered"),
    "refused": _lazy("Refused"),
    "client_error": _lazy("Bad request"),
    "client_disconnect": _lazy("Caller left"),
    "queue_timeout": _lazy("Timed out in the queue"),
    "upstream_error": _lazy("Replica failed"),
    "upstream_timeout": _lazy("Replica too slow"),
    "shutting_down": _lazy("Shutting down"),
    "internal_error": _lazy("Internal error"),
}

GRADES = {"vip": _lazy("VIP"), "premium": _lazy("Premium"), "basic": _lazy("Basic")}
REQUEST_STATES = {
    "open": _lazy("waiting for operations"),
    "approved": _lazy("approved"),
    "declined": _lazy("declined"),
    "withdrawn": _lazy("withdrawn"),
}

NOTHING = "\N{EN DASH}"


@register.filter
def count(value: int) -> str:
    """A whole number with its thousands set apart."""
    return formats.number_format(value, decimal_pos=0, use_l10n=True, force_grouping=True)


@register.filter
def amount(value: float | Decimal | None) -> str:
    """A number as exact as it is, with its thousands set apart."""
    if value is None:
        return NOTHING
    text = plain_number(value)
    places = len(text.partition(".")[2])
    return formats.number_format(Decimal(text), places, use_l10n=True, force_grouping=True)


@register.filter
def plain_number(value: object) -> str:
    """A number as a form field takes it back: no exponent, no grouping, no needless zeros."""
    if isinstance(value, float):
        value = Decimal(repr(value))
    if not isinstance(value, Decimal):
        return "" if value is None else str(value)
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


@register.filter
def limit(value: float | Decimal | None, unit: object) -> str:
    """A limit in words: none is unlimited, and 0 blocks."""
    if value is None:
        return _("unlimited")
    if value == 0:
        return _("0: blocks everything")
    return f"{amount(value)} {unit}"


@register.filter
def money(value: Decimal | None, places: int = 2) -> str:
    """Money, rounded to look at."""
    if value is None:
        return NOTHING
    return formats.number_format(
        round(value, places), decimal_pos=places, use_l10n=True, force_grouping=True
    )


@register.filter
def outcome(status: str) -> str:
    """A request's end in words."""
    return str(OUTCOMES.get(status, status))


@register.filter
def grade(name: str) -> str:
    """A business's grade in words."""
    return str(GRADES.get(name, name))


@register.filter
def request_state(status: str) -> str:
    """What has become of a request to operations."""
    return str(REQUEST_STATES.get(status, status))


@register.filter
def short_id(identity: object) -> str:
    """Enough of an id to tell it from others on a page."""
    return str(identity)[:8]


@register.filter
def duration(ms: float | None) -> str:
    """Milliseconds as people say them: 8 ms, 1.24 s, 3 min 5 s."""
    if ms is None:
        return NOTHING
    if ms < 1_000:
        return _("%(ms)d ms") % {"ms": round(ms)}
    if ms < 60_000:
        return _("%(s)s s") % {"s": formats.number_format(ms / 1_000, 2)}
    minutes, seconds = divmod(round(ms / 1_000), 60)
    return _("%(min)d min %(s)d s") % {"min": minutes, "s": seconds}


@register.filter
def percent(part: int, whole: int) -> str:
    """``part`` of ``whole`` in per cent; a dash of nothing."""
    if not whole:
        return NOTHING
    return _("%(ratio)s %%") % {"ratio": formats.number_format(100 * part / whole, 1)}


@register.filter
def spent(received: datetime, finished: datetime | None) -> str:
    """The time from one moment to the other."""
    return duration(None if finished is None else (finished - received).total_seconds() * 1_000)


@register.filter
def ago(moment: datetime | None) -> str:
    """Roughly how long ago: just now, 5 min ago, 3 h ago, 12 days ago."""
    if moment is None:
        return _("never")
    seconds = (timezone.now() - moment).total_seconds()
    if seconds < 60:
        return _("just now")
    if seconds < 3_600:
        return _("%(n)d min ago") % {"n": seconds // 60}
    if seconds < 2 * 86_400:
        return _("%(n)d h ago") % {"n": seconds // 3_600}
    return _("%(n)d days ago") % {"n": seconds // 86_400}


@register.simple_tag
def moment(at: datetime) -> SafeString:
    """A point in time; the page's script shows it in the reader's own time zone."""
    return format_html(
        '<time datetime="{}" data-local="moment">{} UTC</time>',
        at.isoformat(),
        formats.date_format(at.astimezone(UTC), "DATETIME_FORMAT"),
    )
