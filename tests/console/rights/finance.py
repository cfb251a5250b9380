"""Finance's pages."""

from .kinds import FINANCE, page

RIGHTS = [page("finance-usage", "/finance/usage/", FINANCE)]
