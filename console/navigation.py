"""The menu: only pages that exist, and only those that the person's role may see."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from console.models import User


@dataclass(frozen=True, slots=True)
class Page:
    """One entry of the menu; ``name`` is its address's name, ``icon`` a symbol of icons.svg."""

    name: str
    label: Promise
    icon: str


OVERVIEW = Page("overview", _("Overview"), "chart")
KEYS = Page("keys", _("Keys"), "key")
LIVE = Page("live", _("Live"), "pulse")
MONTH = Page("finance-usage", _("Usage"), "coins")
ADMIN = Page("admin:index", _("Administration"), "settings")

PAGES: dict[str, tuple[Page, ...]] = {
    User.Role.OWNER: (OVERVIEW, KEYS),
    User.Role.OPERATOR: (LIVE,),
    User.Role.FINANCE: (MONTH,),
    User.Role.ADMIN: (LIVE, ADMIN),
}


def first_page(user: User) -> str:
    """The address that somebody of this role starts at."""
    if user.role == User.Role.ADMIN and user.is_staff:
        return reverse(ADMIN.name)
    return reverse(PAGES[user.role][0].name)


def menu(request: HttpRequest) -> dict[str, object]:
    """Template context: the entries of the signed-in person's menu."""
    # A page that answers an error may come before anybody is known.
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {"menu": []}
    pages = [
        {"label": page.label, "icon": page.icon, "url": reverse(page.name)}
        for page in PAGES[user.role]
        if page is not ADMIN or user.is_staff
    ]
    for page in pages:
        page["current"] = request.path == page["url"] or (
            page["url"] != "/" and request.path.startswith(str(page["url"]))
        )
    return {"menu": pages}
