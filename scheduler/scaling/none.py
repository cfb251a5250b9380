"""The driver for a fleet that stays as it is."""

from collections.abc import Callable

from .cards import Card


class NoScaler:
    """No card is ever idle here."""

    def attach(self, changed: Callable[[], None], running: Callable[[str], int]) -> None:
        """Nothing will be told."""

    def cards(self) -> tuple[Card, ...]:
        """None."""
        return ()

    def start(self, card: str, model: str = "") -> bool:
        """Knows no card."""
        return False

    def drain(self, replica: str) -> bool:
        """Knows no replica."""
        return False

    async def close(self) -> None:
        """Nothing to end."""
