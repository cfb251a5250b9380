"""The usual ways in which an address is somebody's or not."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PERSONS = ("stranger", "outsider", "operator", "finance", "admin", "colleague", "owner")
OWNERS = frozenset({"owner", "colleague", "outsider"})
OPERATIONS = frozenset({"operator", "admin"})
FINANCE = frozenset({"finance"})
EVERYBODY = OWNERS | OPERATIONS | FINANCE


@dataclass(frozen=True)
class Right:
    """What each person gets from one method of the address of that name.

    ``hidden`` must not stand in what the outsider gets, and does in what the owner gets.
    """

    name: str
    path: str
    status: Mapping[str, int]
    method: str = "get"
    data: Mapping[str, object] = field(default_factory=dict)
    hidden: str = ""
    json: bool = False

    def but(self, **status: int) -> "Right":
        """The same, except for these persons."""
        return replace(self, status={**self.status, **status})

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _by_person(allowed: frozenset[str], granted: int, refused: int) -> dict[str, int]:
    return {person: granted if person in allowed else refused for person in EVERYBODY}


def page(name: str, path: str, roles: frozenset[str], *, hidden: str = "") -> Right:
    """A page of some roles, of their own things."""
    return Right(name, path, {**_by_person(roles, 200, 403), "stranger": 302}, hidden=hidden)


def page_to_change(
    name: str, path: str, data: Mapping[str, object] | None = None, *, granted: int = 200
) -> Right:
    """A page that changes something of alpha: a GET, or a POST where there is ``data``."""
    status = {**_by_person(OWNERS, granted, 403), "colleague": 403, "outsider": 404}
    return Right(
        name,
        path,
        {**status, "stranger": 302},
        method="get" if data is None else "post",
        data=data or {},
    )


def api_list(name: str, path: str, roles: frozenset[str], *, hidden: str = "") -> Right:
    """A list; an outsider's has nothing of alpha in it."""
    return Right(name, path, {**_by_person(roles, 200, 403), "stranger": 401}, hidden=hidden)


def api_of_alpha(name: str, path: str, roles: frozenset[str]) -> Right:
    """One thing of alpha's to look at."""
    status = {**_by_person(roles, 200, 403), "stranger": 401}
    return Right(name, path, {**status, "outsider": 404})


def api_write(
    name: str,
    path: str,
    data: Mapping[str, object],
    *,
    roles: frozenset[str] = OWNERS,
    granted: int = 200,
    method: str = "post",
) -> Right:
    """A change of something of alpha's."""
    status = {**_by_person(roles, granted, 403), "stranger": 401}
    if "owner" in roles:
        status |= {"colleague": 403, "outsider": 404}
    return Right(name, path, status, method=method, data=data, json=True)
