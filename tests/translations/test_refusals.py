"""What services refuse can be said in every language."""

import ast

import pytest
from django.conf import settings
from django.utils import translation

from console.refusals import SENTENCES, translated

PLACES = ("metering/services", "metering/core/quotas.py")


def sentence(node: ast.expr) -> str | None:
    """A message as the list has it: what varies becomes %(a)s, %(b)s."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if not isinstance(node, ast.JoinedStr):
        return None
    text, names = "", iter("abcdef")
    for part in node.values:
        is_text = isinstance(part, ast.Constant)
        text += (
            str(part.value) if isinstance(part, ast.Constant) and is_text else f"%({next(names)})s"
        )
    return text


def refused() -> set[str]:
    """Every message that a service raises for people."""
    found = set()
    for place in PLACES:
        path = settings.BASE_DIR / place
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                    name = getattr(node.exc.func, "id", "")
                    text = sentence(node.exc.args[0])
                    if text and (name.endswith("RequestError") or name == "ValueError"):
                        found.add(text)
    return found


def test_every_refusal_can_be_translated() -> None:
    assert refused() - set(SENTENCES) == set()


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("another request is still open", "还有一个申请尚未处理"),
        ("only 12.50 is left of bill B-000003", "账单 B-000003 只剩 12.50"),
    ],
)
def test_a_refusal_is_said_in_the_language_of_the_page(text: str, chinese: str) -> None:
    with translation.override("en"):
        assert translated(text) == text[:1].upper() + text[1:]
    with translation.override("zh-hans"):
        assert translated(text) == chinese


def test_what_nobody_knows_is_said_as_it_is() -> None:
    with translation.override("zh-hans"):
        assert translated("something else entirely") == "Something else entirely"
