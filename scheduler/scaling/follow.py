"""From what the core wants of a pool to cards that are started and drained."""

import logging
from collections.abc import Collection

from scheduler.core.decisions import Scale
from scheduler.ports import Scaler

from .cards import CardState

log = logging.getLogger(__name__)

# Counted on already, though the core does not see them as ready yet.
COMING = frozenset({CardState.STARTING, CardState.UP})


def carry_out(scaler: Scaler, scale: Scale, ready: Collection[str]) -> None:
    """Start as many cards as the pool lacks, or drain as many as it has too many, those that
    were started last first. Cards that were not started here are never drained.
    ``ready`` names the replicas that ``scale.ready`` counts."""
    ours = [card for card in scaler.cards() if card.facts.pool == scale.pool]
    coming = [card for card in ours if card.state in COMING]
    if scale.desired > scale.ready:
        lacking = scale.desired - scale.ready - sum(card.facts.name not in ready for card in coming)
        if lacking > 0:
            started = scaler.start(scale.pool, lacking)
            log.info("pool %s lacks %d cards: %d are starting", scale.pool, lacking, started)
        return
    for card in list(reversed(coming))[: scale.ready - scale.desired]:
        if scaler.drain(card.facts.name):
            log.info("pool %s needs %s no more: draining", scale.pool, card.facts.name)
