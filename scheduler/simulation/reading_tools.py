"""What the readers of a scenario's parts share."""

import re

from scheduler.core.policy import Problem
from scheduler.plain_data import Node

# No number of a scenario is larger: seconds, rates, tokens.
MOST = 1e12
TEXT = re.compile(r"[^\x00]*")


def items(node: Node, key: str) -> list[Node]:
    """The entries of a list that may be missing."""
    return node.children(key) or []


def finish(node: Node, remarks: list[Problem]) -> None:
    """Remark on the keys that nobody read. They don't stop a run: scenarios carry notes."""
    node.problems = remarks
    node.close()


def keys(node: Node, key: str) -> list[str]:
    """The names in the mapping below ``key``; none when there is no such mapping."""
    value = node.plain(key)
    return [name for name in value if isinstance(name, str)] if isinstance(value, dict) else []
