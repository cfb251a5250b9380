"""The ways into the audit trail."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction

from metering.core.escalations import EscalationMinute
from metering.models import AuditEntry

# Another process may have counted some of the same minute: the counts add up.
_ESCALATIONS = """
INSERT INTO metering_auditentry AS held (at, actor_id, source, action, business, target, data)
VALUES (now(), NULL, 'gateway', 'priority.escalation', %s, %s, %s::jsonb)
ON CONFLICT (business, target) WHERE action = 'priority.escalation' AND batch_id IS NULL
DO UPDATE SET data = held.data || excluded.data || jsonb_build_object(
    'count', (held.data->>'count')::bigint + (excluded.data->>'count')::bigint)
"""


def record(
    action: str,
    *,
    actor: AbstractBaseUser | None,
    source: str,
    business: str = "",
    target: str = "",
    **data: object,
) -> AuditEntry:
    """Append one entry, in the caller's transaction.

    ``data`` must be JSON's own types and never hold a key, digest or token.
    """
    return AuditEntry.objects.create(
        actor_id=None if actor is None else actor.pk,
        actor_name="" if actor is None else actor.get_username(),
        source=source,
        action=action,
        business=business,
        target=target[:200],
        data=data,
    )


def record_escalations(minutes: Iterable[EscalationMinute]) -> None:
    """Claims above their callers' ceilings: one entry for each business and minute, to which
    later calls add. All or nothing."""
    with transaction.atomic(), connection.cursor() as cursor:
        # In one order, so that two processes never wait for each other's rows.
        for item in sorted(minutes, key=lambda item: (item.business, item.minute)):
            data = {
                "count": item.count,
                "claimed": item.claimed,
                "ceiling": item.ceiling,
                "outcome": item.outcome,
                "last_request": item.last_request,
            }
            at = datetime.fromtimestamp(item.minute * 60, UTC)
            cursor.execute(_ESCALATIONS, [item.business, f"{at:%Y-%m-%dT%H:%MZ}", json.dumps(data)])
