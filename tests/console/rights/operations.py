"""The operators' pages."""

from .kinds import OPERATIONS, page

RIGHTS = [page("live", "/ops/live/", OPERATIONS)]
