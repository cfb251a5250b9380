"""README says what is true: every variable, target, command and metric, and no others."""

import ast
import re
from collections.abc import Iterator

from django.core.management import get_commands

from scheduler.gateway.errors import STATUS
from scheduler.metrics import Metrics

from .sources import ROOT, modules, tree

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
READERS = {"text", "secret", "integer", "choice", "flag", "names", "timezone"}


def section(title: str) -> str:
    """The text below a heading, to the next of the same rank."""
    return re.split(rf"^## {title}$", README, flags=re.MULTILINE)[1].partition("\n## ")[0]


def variables_read() -> Iterator[tuple[str, str]]:
    """Reader and name of each variable that the settings and ``make up`` read."""
    for path in modules("console/config/settings", "console/up"):
        for node in ast.walk(tree(path)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in READERS
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id in {"ENV", "env"}
                and isinstance(node.args[0], ast.Constant)
            ):
                yield node.func.attr, str(node.args[0].value)


def test_lists_every_variable() -> None:
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", section("Environment"), flags=re.MULTILINE))
    assert listed == {name for _, name in variables_read()}


def test_names_every_secret_that_can_be_a_file() -> None:
    sentence = section("Environment").rpartition("|")[2].partition("can also come")[0]
    secrets = {name for reader, name in variables_read() if reader == "secret"}
    assert set(re.findall(r"`([A-Z_]+)`", sentence)) == secrets


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE))
    shown = set(re.findall(r"`(?:[A-Z]+=\S+ )*make ([a-z-]+)", README))
    assert shown
    assert shown <= targets
    assert {"up", "test", "check", "bench", "simulate"} <= shown


def test_commands_exist() -> None:
    shown = set(re.findall(r"manage\.py ([a-z_]+)", README)) | {"policy"}
    assert shown <= set(get_commands())


def test_lists_every_error_code_that_is_raised() -> None:
    text = section("Calling it")
    listed = set(re.findall(r"`([a-z_]+)`", text.partition("### When it says no")[2]))
    raised = set()
    for path in modules("scheduler/gateway", "scheduler/core", "scheduler"):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.Constant) and node.value in STATUS:
                raised.add(str(node.value))
    assert listed <= set(STATUS)
    assert {code for code in raised if used(code)} <= listed


def used(code: str) -> bool:
    """Whether more than the table of codes and messages knows it."""
    places = [
        path
        for path in modules("scheduler")
        if f'"{code}"' in path.read_text(encoding="utf-8") and path.name != "errors.py"
    ]
    return bool(places)


def test_lists_every_metric() -> None:
    listed = set(re.findall(r"^\| `(fairlane_[a-z_]+)` \|", section("Metrics"), flags=re.MULTILINE))
    registry = Metrics().registry
    kinds = {family.name: family.type for family in registry.collect()}
    assert listed == {f"{name}_total" if kinds[name] == "counter" else name for name in kinds}


def test_first_screen_is_the_two_commands() -> None:
    top = "\n".join(README.splitlines()[:20])
    assert "make up" in top
    assert "make test" in top


def test_other_documents_are_there() -> None:
    for name in re.findall(r"\]\(([A-Z]+\.md)\)", README):
        assert (ROOT / name).exists()
