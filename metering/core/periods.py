"""Days and months of a time zone as stretches of real time."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo


def midnight(day: date, zone: tzinfo) -> datetime:
    """The moment (UTC) at which ``day`` begins.

    Where the clock is put back over midnight the day begins the first time; where it is put
    forward over it, at the jump.
    """
    return datetime.combine(day, time.min, zone).astimezone(UTC)


def day_of(moment: datetime, zone: tzinfo) -> date:
    """The day that ``moment`` belongs to."""
    day = moment.astimezone(zone).date()
    # Put back over midnight, the last hour of a day comes again after the next has begun.
    following = day + timedelta(days=1)
    return following if moment >= midnight(following, zone) else day


def day_bounds(day: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """Its first moment and the first after it; 23 to 25 hours apart."""
    return midnight(day, zone), midnight(day + timedelta(days=1), zone)


def first_of(day: date) -> date:
    """The first day of its month."""
    return day.replace(day=1)


def next_month(month: date) -> date:
    """The first day of the month after."""
    return (month.replace(day=28) + timedelta(days=4)).replace(day=1)


def month_bounds(month: date, zone: tzinfo) -> tuple[datetime, datetime]:
    """Its first moment and the first after it."""
    return midnight(first_of(month), zone), midnight(next_month(month), zone)


def month_of(moment: datetime, zone: tzinfo) -> date:
    """The first day of the month that ``moment`` belongs to."""
    return first_of(day_of(moment, zone))


def days_of(month: date) -> list[date]:
    """All days of the month."""
    first = first_of(month)
    return [first + timedelta(days=n) for n in range((next_month(month) - first).days)]
