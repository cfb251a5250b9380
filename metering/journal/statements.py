"""The SQL that turns journal payloads into usage records.

Generated from the model, so that a new column is a new field of the row and nothing else.
Each expression takes any JSON value for its field and yields one that the column holds: a
row with an odd value must not keep a thousand others out.
"""

from datetime import UTC, datetime

from django.db import models

from metering.models import UsageRecord
from metering.models.usage import SET_ON_ARRIVAL

STAGING = "fairlane_usage_staging"

CREATE_STAGING = f"CREATE TEMPORARY TABLE {STAGING} (doc jsonb) ON COMMIT DELETE ROWS"
COPY = f"COPY {STAGING} (doc) FROM STDIN"

# The column, and the field of UsageRow it is made of, where the names differ. Times are ns.
_TIMES = {
    "received_at": ("received", "finished"),
    "dispatched_at": ("dispatched",),
    "first_byte_at": ("first_byte",),
    "finished_at": ("finished", "received"),
}
_LATEST_US = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1_000_000
# No answer went out.
_ZERO_IS_NONE = {"http_status"}
_LARGEST: dict[type, int] = {
    models.PositiveSmallIntegerField: 2**15 - 1,
    models.PositiveIntegerField: 2**31 - 1,
    models.PositiveBigIntegerField: 2**63 - 1,
}


def _time(*names: str) -> str:
    """A timestamp of the first of ``names`` that came to pass (0 is: it did not)."""
    moments = ", ".join(
        f"CASE WHEN jsonb_typeof(doc->'{name}') = 'number' AND (doc->'{name}')::numeric > 0"
        f" THEN least(trunc((doc->'{name}')::numeric / 1000), {_LATEST_US})::float8"
        " * interval '1 microsecond' + timestamptz 'epoch' END"
        for name in names
    )
    return f"coalesce({moments})" if len(names) > 1 else moments


def _expression(field: "models.Field[object, object]") -> str:
    name = field.name
    if isinstance(field, models.UUIDField):
        return (
            rf"CASE WHEN doc->>'{name}' ~* '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$'"
            f" THEN (doc->>'{name}')::uuid ELSE md5(doc::text)::uuid END"
        )
    if isinstance(field, models.DateTimeField):
        moment = _time(*_TIMES[name])
        return moment if field.null else f"coalesce({moment}, now())"
    if isinstance(field, models.BooleanField):
        return f"coalesce(doc->'{name}' = 'true'::jsonb, false)"
    if isinstance(field, models.FloatField):
        return _number(name, f"(doc->'{name}')::float8", "0")
    if isinstance(field, models.CharField):
        return f"left(coalesce(doc->>'{name}', ''), {field.max_length})"
    largest = _LARGEST[type(field)]
    number = f"least(greatest(trunc((doc->'{name}')::numeric), 0), {largest})"
    if name in _ZERO_IS_NONE:
        number = f"nullif({number}, 0)"
    absent = "NULL" if field.null else "0"
    return _number(name, number, absent)


def _number(name: str, value: str, absent: str) -> str:
    return f"CASE jsonb_typeof(doc->'{name}') WHEN 'number' THEN {value} ELSE {absent} END"


def _insert() -> str:
    table = UsageRecord._meta  # noqa: SLF001 - Django's documented way to a model's fields
    fields = [field for field in table.concrete_fields if field.name not in SET_ON_ARRIVAL]
    columns = ", ".join(f'"{field.column}"' for field in fields)
    values = ", ".join(_expression(field) for field in fields)
    return (
        f'INSERT INTO "{table.db_table}" ({columns})'  # noqa: S608 - names of the model's own
        f" SELECT {values} FROM {STAGING} ON CONFLICT (id) DO NOTHING"
    )


INSERT = _insert()

# A key that somebody changes at this moment is passed over: its next use will show.
TOUCH_KEYS = f"""
WITH used AS (
    SELECT doc->>'business' AS business, doc->>'key_prefix' AS prefix,
           max({_time("received", "finished")}) AS at
    FROM {STAGING} GROUP BY 1, 2
), held AS (
    SELECT key.id, used.at
    FROM metering_apikey AS key
    JOIN metering_business AS business ON business.id = key.business_id
    JOIN used ON used.business = business.name AND used.prefix = key.prefix
    WHERE key.last_used_at IS NULL OR key.last_used_at < used.at
    ORDER BY key.id FOR UPDATE OF key SKIP LOCKED
)
UPDATE metering_apikey AS key SET last_used_at = held.at FROM held WHERE key.id = held.id
"""  # noqa: S608 - made of constants
