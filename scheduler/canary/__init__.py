"""A draft policy's per-request fields, tried on some businesses beside all others."""

from .facts import Trial
from .judging import Judgement, Limits, judge
from .meter import Meter
from .tally import Group, Tally

__all__ = ["Group", "Judgement", "Limits", "Meter", "Tally", "Trial", "judge"]
