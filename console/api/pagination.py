"""Pages by cursor: whatever is added meanwhile, no row comes twice or is left out."""

from rest_framework.pagination import CursorPagination


class Pages(CursorPagination):
    """Newest first, 50 a page, up to 500 with ``page_size``.

    ``ordering`` of a view must end in something unique, and be what an index gives.
    """

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500
    ordering = ("-pk",)
