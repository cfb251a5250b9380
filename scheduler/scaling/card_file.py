"""The file that names the cards of this machine which may be put to use.

cards:
  - {name: spare-1, pool: gpu-elastic, run: emulator, slots: 8, models: {chat: org/Model-7B}}
"""

import re

from scheduler import yaml_text
from scheduler.core.policy import Problem
from scheduler.plain_data import Node

from .cards import CardSpec
from .processes import ENGINES

MOST_BYTES = 1024 * 1024
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
NAME_ALLOWED = "letters, digits and . _ -, at most 100, beginning with a letter or digit"
SERVED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
SERVED_ALLOWED = "letters, digits and . _ : / @ + -, at most 200"
ARGUMENT = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
ARGUMENT_ALLOWED = "a text of at most 200 printable characters"
MOST_SLOTS = 100_000


class CardsError(ValueError):
    """A file that can't be taken, with its first problem."""


def parse_cards(text: str) -> tuple[CardSpec, ...]:
    """Read the file. Raises CardsError."""
    try:
        data = yaml_text.load(text, MOST_BYTES)
    except yaml_text.YamlError as error:
        raise CardsError(str(Problem(error.path, error.message, error.line))) from None
    problems: list[Problem] = []
    root = Node({} if data.value is None else data.value, "", problems)
    cards = tuple(_card(node) for node in root.children("cards") or [])
    root.close()
    if problems:
        raise CardsError(str(problems[0]))
    names = [card.name for card in cards]
    for name in names:
        if names.count(name) > 1:
            raise CardsError(f"cards: {name} stands twice")
    return cards


def _card(node: Node) -> CardSpec:
    names = node.child("models")
    models = {}
    if names is not None:
        models = {
            public: names.needed(public, SERVED, SERVED_ALLOWED) for public in names.present()
        }
        names.close()
    if not models:
        node.note("models", "must name at least one model")
    found = CardSpec(
        name=node.needed("name", NAME, NAME_ALLOWED),
        pool=node.needed("pool", NAME, NAME_ALLOWED),
        run=node.needed_choice("run", tuple(ENGINES)),
        slots=node.whole("slots", 1, 1, MOST_SLOTS),
        gpus=node.number("gpus", 1.0, 0, MOST_SLOTS),
        kv_tokens=node.whole("kv_tokens", None, 1, 2**63 - 1),
        models=models,
        arguments=tuple(_arguments(node)),
    )
    node.close()
    return found


def _arguments(node: Node) -> list[str]:
    value = node.plain("arguments")
    if value is None:
        return []
    if not isinstance(value, list) or not all(
        isinstance(item, str) and ARGUMENT.fullmatch(item) for item in value
    ):
        node.refuse("arguments", f"a list, each {ARGUMENT_ALLOWED}", value)
        return []
    return value
