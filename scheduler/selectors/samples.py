"""What requests of the last day were like, for estimates to begin with."""

from datetime import UTC, datetime, timedelta

from django.db import connection, transaction

from scheduler.core.events import Sample

# How far back: what was so long ago may have run on other cards.
SPAN = timedelta(days=1)
# Read at most, of all businesses together and of one at least, and told at most.
MOST_READ = 30_000
LEAST_EACH = 5
MOST_ALIKE = 200
MOST_TOLD = 20_000
STATEMENT_MS = 5_000
# Ids begin with the date; that of a row may be another than its own by what a clock was set.
ASTRAY = timedelta(days=3)

_LIMITS = f"SET LOCAL statement_timeout = {STATEMENT_MS}; SET LOCAL work_mem = '32MB'"
_COUNT = "SELECT count(*) FROM metering_business"
# Of each business the newest, whatever became of them, so that one whose requests are all refused
# costs no more than others; the partitions of other months are left out by the ids. The scheduler
# knows embeddings as work without tokens, and when the caller of a plain call had its first byte
# says nothing of the first token.
_NEWEST = """
SELECT business, model, replica, prompt, output, cached, first, held FROM (
    SELECT newest.*, row_number() OVER (
        PARTITION BY business, model, replica ORDER BY received_at DESC
    ) AS place
    FROM metering_business AS known CROSS JOIN LATERAL (
        SELECT received_at, finished_at, business, replica,
            coalesce(nullif(degraded_to, ''), requested_model) AS model,
            CASE operation WHEN 'embeddings' THEN 0 ELSE prompt_tokens END AS prompt,
            CASE operation WHEN 'embeddings' THEN 0 ELSE completion_tokens END AS output,
            CASE operation WHEN 'embeddings' THEN 0 ELSE cached_tokens END AS cached,
            CASE WHEN stream AND first_byte_at > dispatched_at
                THEN extract(epoch FROM first_byte_at - dispatched_at) * 1000000 ELSE 0
            END::bigint * 1000 AS first,
            (extract(epoch FROM finished_at - dispatched_at) * 1000000)::bigint * 1000 AS held,
            status = 'ok' AND attempts = 1 AND preempted = 0 AND NOT estimated AS whole
        FROM metering_usagerecord AS used
        WHERE used.business = known.name AND received_at >= %(since)s AND id >= %(least)s::uuid
        ORDER BY received_at DESC LIMIT %(each)s
    ) AS newest
    WHERE whole AND held > 0 AND replica <> ''
) AS alike
WHERE place <= %(alike)s
ORDER BY finished_at DESC LIMIT %(most)s
"""


def load_samples(now: datetime | None = None) -> tuple[Sample, ...]:
    """Requests that were served in one attempt and never paused, the oldest first: of the newest
    of each business at most ``MOST_ALIKE`` of each model on each replica. Three statements. Raises
    django.db.Error where Postgres cannot be read, or not within ``STATEMENT_MS``."""
    since = (now or datetime.now(UTC)) - SPAN
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_LIMITS)
        cursor.execute(_COUNT)
        (businesses,) = cursor.fetchone() or (0,)
        cursor.execute(
            _NEWEST,
            {
                "since": since,
                "least": _least_id(since - ASTRAY),
                "each": max(LEAST_EACH, MOST_READ // max(1, businesses)),
                "alike": MOST_ALIKE,
                "most": MOST_TOLD,
            },
        )
        rows = cursor.fetchall()
    return tuple(Sample(*row) for row in reversed(rows))


def _least_id(moment: datetime) -> str:
    """The least UUIDv7 of a moment."""
    digits = f"{int(moment.timestamp() * 1000):012x}"
    return f"{digits[:8]}-{digits[8:]}-0000-0000-000000000000"
