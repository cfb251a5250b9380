"""Replicas that are started when they are needed, on cards that would be idle otherwise.

The core says how many it wants and which it can spare; a driver, behind ``ports.Scaler``,
makes it so. When to scale, how far, and how long to wait in between is the core's. The driver
of processes is in a module of its own, which the simulator has no need of.
"""

from .cards import Card, CardSpec, CardState, cards_told, with_cards
from .none import NoScaler

__all__ = [
    "Card",
    "CardSpec",
    "CardState",
    "NoScaler",
    "cards_told",
    "with_cards",
]
