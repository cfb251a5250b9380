"""The resources of the API, and the scopes that follow from them."""

from . import bills, businesses, credentials, keys, operations, quotas, usage
from .base import Guarded

# Address and views of each resource.
ROUTES: list[tuple[str, type[Guarded]]] = [  # type: ignore[type-arg]
    ("businesses", businesses.Businesses),
    ("keys", keys.Keys),
    ("credentials", credentials.Credentials),
    ("quotas", quotas.Quotas),
    ("usage", usage.Usage),
    ("statements", usage.Statements),
    ("bills", bills.Bills),
    ("prices", bills.Prices),
    ("policies", operations.Policies),
    ("pools", operations.Pools),
    ("replicas", operations.Replicas),
    ("models", operations.Models),
    ("decisions", operations.Decisions),
    ("audit", operations.Audit),
    ("live", operations.Live),
]


def scopes_of(role: str) -> list[str]:
    """Every scope that somebody of this role can give to a token."""
    found = set()
    for _address, views in ROUTES:
        if role in views.read_roles:
            found.add(f"{views.resource}:read")
        if role in views.write_roles:
            found.add(f"{views.resource}:write")
    return sorted(found)
