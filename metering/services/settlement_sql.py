"""The SQL of settlement: usage rows to priced hours, hours to statements.

The rows are read once, by as many workers as Postgres gives, which is why they go to a temporary
table first: only then does it read in parallel. Sums are of whole numbers (GPU time in
nanoseconds), so they do not depend on the order of rows. Prices are applied to the sums.
"""

NANO = "1000000000"

# Rows that never ran have no model: their callers may have named anything.
_ROW = f"""
    SELECT business, {{day}} AS day, date_bin('1 hour', received_at, 'epoch') AS hour,
        CASE WHEN dispatched_at IS NULL THEN '' WHEN degraded_to <> '' THEN degraded_to
            ELSE requested_model END AS model,
        lane, price_version,
        dispatched_at IS NOT NULL AND (status = 'ok' OR completion_tokens > 0) AS billed,
        count(*) AS requests,
        sum(prompt_tokens) AS prompt_tokens,
        sum(least(cached_tokens, prompt_tokens)) AS cached_tokens,
        sum(completion_tokens) AS completion_tokens,
        sum(round(gpu_seconds * {NANO})::bigint) AS gpu_ns,
        sum(preempted) AS preempted,
        count(*) FILTER (WHERE displaced <> '') AS displaced,
        count(*) FILTER (WHERE estimated) AS estimated,
        count(*) FILTER (WHERE cached_tokens > prompt_tokens) AS clamped
    FROM metering_usagerecord
    WHERE {{where}}
    GROUP BY 1, 2, 3, 4, 5, 6, 7
"""  # noqa: S608 - made of constants

# A model's own prices, or those of the empty name; GPU time in seconds from here on.
_PRICED = """
    SELECT used.*,
        CASE WHEN NOT billed THEN 0 ELSE coalesce(
            (((prompt_tokens - cached_tokens) * price.prompt
                + cached_tokens * coalesce(price.cached, price.prompt)
                + completion_tokens * price.completion) * 0.000001
            + gpu_ns * 0.000000001 * price.gpu_second + requests * price.request)
            * CASE lane WHEN 'P0' THEN p0 WHEN 'P1' THEN p1 WHEN 'P2' THEN p2 ELSE 1 END, 0)
        END AS charge,
        CASE WHEN NOT billed THEN 0 ELSE coalesce(displaced * preemption_surcharge, 0)
        END AS surcharge,
        CASE WHEN NOT billed THEN 0 ELSE coalesce(used.preempted * preemption_credit, 0)
        END AS credit
    FROM used
    LEFT JOIN metering_pricebook AS book ON book.version = price_version
    LEFT JOIN LATERAL (
        SELECT * FROM metering_modelprice AS own
        WHERE own.book_id = price_version AND own.model IN (used.model, '')
        ORDER BY own.model = '' LIMIT 1
    ) AS price ON true
"""

_FIGURES = """
    sum(requests)::bigint AS requests,
    coalesce(sum(requests) FILTER (WHERE billed), 0)::bigint AS billed_requests,
    coalesce(sum(prompt_tokens) FILTER (WHERE billed), 0)::bigint AS prompt_tokens,
    coalesce(sum(cached_tokens) FILTER (WHERE billed), 0)::bigint AS cached_tokens,
    coalesce(sum(completion_tokens) FILTER (WHERE billed), 0)::bigint AS completion_tokens,
    sum(gpu_ns) * 0.000000001 AS gpu_seconds,
    coalesce(sum(gpu_ns) FILTER (WHERE billed), 0) * 0.000000001 AS billed_gpu_seconds,
    coalesce(sum(preempted) FILTER (WHERE billed), 0)::bigint AS preempted,
    coalesce(sum(displaced) FILTER (WHERE billed), 0)::bigint AS displaced,
    coalesce(sum(estimated) FILTER (WHERE billed), 0)::bigint AS estimated,
    coalesce(sum(clamped) FILTER (WHERE billed), 0)::bigint AS clamped,
    sum(charge) AS charge,
    sum(least(credit, charge + surcharge)) AS credit,
    sum(surcharge) AS surcharge,
    sum(charge + surcharge - least(credit, charge + surcharge)) AS amount,
    min(price_version) AS first_price,
    max(price_version) AS last_price
"""

SUMMED = (
    *("requests", "billed_requests", "prompt_tokens", "cached_tokens", "completion_tokens"),
    *("gpu_seconds", "billed_gpu_seconds", "preempted", "displaced", "estimated", "clamped"),
    *("charge", "credit", "surcharge", "amount"),
)


def read_rows(*, day: str, where: str) -> str:
    """Makes the temporary table ``used``. ``day`` is an SQL expression, ``where`` a condition."""
    return f"CREATE TEMPORARY TABLE used ON COMMIT DROP AS {_ROW.format(day=day, where=where)}"


def priced_hours(*, day: str, where: str) -> str:
    """A query: one row for each business, day, hour, model and lane, with all figures."""
    return (
        f"WITH used AS ({_ROW.format(day=day, where=where)}), priced AS ({_PRICED})"  # noqa: S608
        f" SELECT business, day, hour, model, lane, {_FIGURES} FROM priced GROUP BY 1, 2, 3, 4, 5"
    )


PRICE_HOURS = (
    f"CREATE TEMPORARY TABLE hours ON COMMIT DROP AS WITH priced AS ({_PRICED})"  # noqa: S608
    f" SELECT business, day, hour, model, lane, {_FIGURES} FROM priced GROUP BY 1, 2, 3, 4, 5"
)


def _upsert(table: str, keys: str, *, source: str, extra: str = "", stamp: bool = False) -> str:
    """Insert or bring up to date; a row that is the same already is not touched.

    Rows of usage only ever come, so one whose requests have become fewer is kept as well: it is
    the proof that some went missing, which the reconciliation then shows.
    """
    sums = ", ".join(f"sum({name})" for name in SUMMED)
    columns = ", ".join(SUMMED)
    extras = f", {extra}" if extra else ""
    extra_sums = ", min(first_price), max(last_price)" if extra else ""
    stamped, now = (", settled_at", ", now()") if stamp else ("", "")
    compared = (*SUMMED, *(name for name in extra.split(", ") if name))
    new = ", ".join(f"excluded.{name}" for name in compared)
    old = ", ".join(f"held.{name}" for name in compared)
    changes = ", ".join(f"{name} = excluded.{name}" for name in compared)
    stamp_change = ", settled_at = excluded.settled_at" if stamp else ""
    return (
        f"INSERT INTO {table} AS held ({keys}, {columns}{extras}{stamped})"  # noqa: S608
        f" SELECT {keys}, {sums}{extra_sums}{now} FROM {source} GROUP BY {keys} ORDER BY {keys}"
        f" ON CONFLICT ({keys}) DO UPDATE SET {changes}{stamp_change}"
        f" WHERE ({new}) IS DISTINCT FROM ({old}) AND excluded.requests >= held.requests"
    )


PRICES = "first_price, last_price"
SETTLE_HOURS = _upsert("metering_usagehour", "business, day, hour, model, lane", source="hours")
SETTLE_DAYS = _upsert(
    "metering_dailystatement",
    "business, day, model, lane",
    source="hours",
    extra=PRICES,
    stamp=True,
)
ADJUST = _upsert(
    "metering_adjustment",
    "billed_in, business, day, model, lane",
    source="(SELECT %(month)s::date AS billed_in, hours.* FROM hours) AS late",
    extra=PRICES,
    stamp=True,
)
