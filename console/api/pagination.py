"""Pages by cursor: whatever is added meanwhile, no row comes twice or is left out."""

from typing import Any

from rest_framework.pagination import CursorPagination
from rest_framework.request import Request


class Pages(CursorPagination):
    """Newest first, 50 a page, up to 500 with ``page_size``.

    A view's ``ordering`` must end in something unique, and be what an index gives.
    """

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def get_ordering(self, request: Request, queryset: Any, view: Any) -> tuple[str, ...]:
        """The view's own."""
        return tuple(view.ordering)
