"""The menu: only pages that exist, and only those that the person's role may see."""

from dataclasses import dataclass

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.http import url_has_allowed_host_and_scheme
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
CREDENTIALS = Page("credentials", _("Credentials"), "badge")
QUOTAS = Page("quotas", _("Quotas"), "gauge")
BILLS = Page("bills", _("Bills"), "coins")
MEMBERS = Page("members", _("Members"), "people")
TRY = Page("try", _("Try it"), "chat")
LIVE = Page("live", _("Live"), "pulse")
POLICY = Page("policy", _("Policy"), "sliders")
FLEET = Page("fleet", _("Fleet"), "server")
BUSINESSES = Page("businesses", _("Businesses"), "people")
DECISIONS = Page("decisions", _("Decisions"), "search")
AUDIT = Page("audit", _("Audit"), "list")
MONTH = Page("finance-bills", _("Bills"), "coins")
PRICES = Page("finance-prices", _("Prices"), "tag")
CREDIT_NOTES = Page("finance-credit-notes", _("Credit notes"), "undo")
RECONCILIATION = Page("finance-reconciliation", _("Reconciliation"), "scales")
USAGE = Page("finance-usage", _("Usage"), "chart")
ADMIN = Page("admin:index", _("Administration"), "settings")

OPERATIONS = (LIVE, POLICY, FLEET, BUSINESSES, DECISIONS, AUDIT)
PAGES: dict[str, tuple[Page, ...]] = {
    User.Role.OWNER: (OVERVIEW, KEYS, CREDENTIALS, QUOTAS, BILLS, MEMBERS, TRY),
    User.Role.OPERATOR: OPERATIONS,
    User.Role.FINANCE: (MONTH, PRICES, CREDIT_NOTES, RECONCILIATION, USAGE),
    User.Role.ADMIN: (*OPERATIONS, ADMIN),
}


def local(request: HttpRequest, address: str) -> str:
    """The address if it leads nowhere but to this site, else nothing."""
    ours = url_has_allowed_host_and_scheme(
        address, {request.get_host()}, require_https=request.is_secure()
    )
    return address if ours else ""


def first_page(user: User) -> str:
    """The address that somebody of this role starts at."""
    if user.role == User.Role.ADMIN and user.is_staff:
        return reverse(ADMIN.name)
    return next(address for address in map(_address, PAGES[user.role]) if address)


def menu(request: HttpRequest) -> dict[str, object]:
    """Template context: the entries of the signed-in person's menu."""
    # A page that answers an error may come before anybody is known.
    user = getattr(request, "user", None)
    if not isinstance(user, User):
        return {"menu": []}
    pages = [
        {"label": page.label, "icon": page.icon, "url": address}
        for page in PAGES[user.role]
        if (address := _address(page)) and (page is not ADMIN or user.is_staff)
    ]
    for page in pages:
        page["current"] = request.path == page["url"] or (
            page["url"] != "/" and request.path.startswith(str(page["url"]))
        )
    return {"menu": pages}


def _address(page: Page) -> str:
    """Where the page is; empty for one that this installation does not have."""
    try:
        return reverse(page.name)
    except NoReverseMatch:
        return ""
