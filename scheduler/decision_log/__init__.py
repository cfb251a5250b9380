"""The log of decisions: what is kept of which (recorder), and how it gets to Postgres (writer)."""

from .recorder import Recorder
from .row import DecisionRow, Why
from .writer import DecisionWriter

__all__ = ["DecisionRow", "DecisionWriter", "Recorder", "Why"]
