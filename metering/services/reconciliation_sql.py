"""The SQL of the reconciliation: two sides of the books, group by group."""

from metering.services.settlement_sql import SUMMED, priced_hours

# What both sides must agree in.
COMPARED = SUMMED
_DAY = "(received_at AT TIME ZONE %(zone)s)::date"
_COLUMNS = ", ".join(COMPARED)
_SUMS = ", ".join(f"sum({name}) AS {name}" for name in COMPARED)


def _sides(left: str, right: str, keys: str) -> str:
    """Totals of both sides, the number of groups that differ, and the first of them.

    Both are queries with the columns ``keys`` and COMPARED.
    """
    both = ", ".join(f"a.{name} AS a_{name}, b.{name} AS b_{name}" for name in COMPARED)
    left_row = ", ".join(f"a_{name}" for name in COMPARED)
    right_row = ", ".join(f"b_{name}" for name in COMPARED)
    label = " || ' ' || ".join(f"coalesce({key}::text, '')" for key in keys.split(", "))
    differs = f"({left_row}) IS DISTINCT FROM ({right_row})"
    return (
        f"WITH a AS ({left}), b AS ({right}),"  # noqa: S608 - made of constants
        f" both_sides AS (SELECT {keys}, {both} FROM a FULL JOIN b USING ({keys}))"
        " SELECT coalesce(sum(a_requests), 0), coalesce(sum(b_requests), 0),"
        " coalesce(sum(a_amount), 0), coalesce(sum(b_amount), 0),"
        f" count(*) FILTER (WHERE {differs}),"
        f" (array_agg({label} || ': ' || coalesce(a_requests, 0) || ' and '"
        f" || coalesce(b_requests, 0) || ' requests' ORDER BY {keys})"
        f" FILTER (WHERE {differs}))[:20]"
        " FROM both_sides"
    )


_GROUP = "business, day, model, lane"


def _rows(where: str) -> str:
    hours = priced_hours(day=_DAY, where=where)
    return f"SELECT {_GROUP}, {_SUMS} FROM ({hours}) AS hours GROUP BY {_GROUP}"  # noqa: S608


_ON_TIME = "billed_in IS NULL AND received_at >= %(start)s AND received_at < %(end)s"
ROWS_AND_STATEMENTS = _sides(
    f"SELECT * FROM ({_rows(_ON_TIME)})"  # noqa: S608
    " AS every WHERE day = ANY(%(days)s)",
    f"SELECT {_GROUP}, {_COLUMNS} FROM metering_dailystatement WHERE day = ANY(%(days)s)",  # noqa: S608
    _GROUP,
)
LATE_ROWS_AND_ADJUSTMENTS = _sides(
    f"SELECT * FROM ({_rows('billed_in = %(month)s')}) AS every WHERE day > %(kept)s",  # noqa: S608
    f"SELECT {_GROUP}, {_COLUMNS} FROM metering_adjustment"  # noqa: S608
    " WHERE billed_in = %(month)s AND day > %(kept)s",
    _GROUP,
)
_LINE = "business, usage_month, lane, model"
_MONTH = "date_trunc('month', day::timestamp)::date AS usage_month"
_OF_MONTH = f"SELECT business, {_MONTH}, lane, model, {_COLUMNS}"
STATEMENTS_AND_BILLS = _sides(
    f"SELECT {_LINE}, {_SUMS} FROM ("  # noqa: S608
    f"{_OF_MONTH} FROM metering_dailystatement WHERE day >= %(month)s AND day < %(next)s"
    f" UNION ALL {_OF_MONTH} FROM metering_adjustment WHERE billed_in = %(month)s"
    f") AS every GROUP BY {_LINE}",
    f"SELECT bill.business, usage_month, lane, model, {', '.join(f'line.{n}' for n in COMPARED)}"  # noqa: S608
    " FROM metering_billline AS line JOIN metering_bill AS bill ON bill.id = line.bill_id"
    " WHERE bill.month = %(month)s",
    _LINE,
)
# Bills whose lines are not their total, and numbers that are missing.
TOTALS = """
SELECT coalesce(sum(lines.rounded), 0), coalesce(sum(bill.total), 0),
    count(*) FILTER (WHERE (lines.rounded, lines.exact, lines.count)
        IS DISTINCT FROM (bill.total, bill.exact, bill.lines_count::bigint)),
    count(*)
FROM metering_bill AS bill
LEFT JOIN (
    SELECT bill_id, sum(rounded) AS rounded, sum(amount) AS exact, count(*) AS count
    FROM metering_billline GROUP BY 1
) AS lines ON lines.bill_id = bill.id
WHERE bill.month = %(month)s
"""
NUMBERS = "SELECT count(*), coalesce(max(number), 0) FROM metering_bill"
# GPU time of the rows, charged and not; and of requests that ran across the month's edges, for
# which one side counts what the other does not.
GPU_ROWS = """
SELECT coalesce(sum(gpu), 0), coalesce(sum(gpu) FILTER (WHERE billed), 0),
    coalesce(sum(gpu) FILTER (WHERE across), 0)
FROM (
    SELECT round(gpu_seconds * 1000000000)::bigint * 0.000000001 AS gpu,
        dispatched_at IS NOT NULL AND (status = 'ok' OR completion_tokens > 0) AS billed,
        finished_at >= %(end)s AS across
    FROM metering_usagerecord WHERE received_at >= %(start)s AND received_at < %(end)s
) AS rows
"""
GPU_BEFORE = """
SELECT coalesce(sum(round(gpu_seconds * 1000000000)::bigint), 0) * 0.000000001
FROM metering_usagerecord WHERE received_at < %(start)s AND finished_at >= %(start)s
"""
GPU_HOURS = """
SELECT coalesce(sum(wall_seconds), 0), coalesce(sum(busy_seconds), 0), count(*)
FROM metering_gpuhour WHERE hour >= %(start)s AND hour < %(end)s
"""
