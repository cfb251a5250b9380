"""Every string that people read exists in every language, and none is written past gettext."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from django.utils import translation

from console.translations.catalogs import compile_all, complete, problems
from console.translations.extraction import Wanted, messages, script_messages

ROOT = settings.BASE_DIR
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
# Names and signs that are the same in every language.
SAME = re.compile(
    r"Fairlane|P[0-9]+|UTC|GPU|KV|JSON|CSV|XLSX|PDF|ZIP|YAML|ID|ms|"
    r"SHA-256",
)
# What programs read, not people.
SILENT = {"script", "style", "code"}
SPOKEN = ("aria-label", "title", "alt", "placeholder", "content")


class Words(HTMLParser):
    """Collects text and spoken attributes; what the template engine fills in is gone by now."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in SILENT
        given = dict(attrs)
        if tag == "meta" and given.get("name") != "description":
            return
        self.found.extend(text for name, text in attrs if name in SPOKEN and text)

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in SILENT

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.found.append(data)


def bare_words(source: str) -> list[str]:
    """Words that stand in a template for themselves, in no language but its author's."""
    source = re.sub(r"\{% comment.*?endcomment %\}|\{#.*?#\}", "", source, flags=re.DOTALL)
    block = r"\{%\s*blocktrans(late)?\b.*?\{%\s*endblocktrans(late)?\s*%\}"
    source = re.sub(block, "", source, flags=re.DOTALL)
    source = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", source, flags=re.DOTALL)
    words = Words()
    words.feed(source)
    rest = (SAME.sub("", text) for text in words.found)
    return [text.strip() for text in rest if re.search(r"[A-Za-z]{2,}", text)]


def test_every_string_is_translated() -> None:
    assert problems(ROOT, settings.LOCALE_SOURCES) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_no_template_speaks_past_gettext(path: Path) -> None:
    assert bare_words(path.read_text(encoding="utf-8")) == []


def test_bare_words_are_seen() -> None:
    assert bare_words('<p>{% translate "Keys" %}</p><td aria-label="Keys">{{ x }} P95</td>') == [
        "Keys"
    ]
    assert bare_words("<h1>Hello {{ name }}</h1>") == ["Hello"]


def project(tmp_path: Path) -> tuple[Path, Path]:
    """A small project with one string of each kind and an empty language."""
    for folder in ("console", "metering", "scheduler", "templates", "static/js", "locale/zh_Hans"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "console" / "a.py").write_text(
        '_("from Python"); ngettext("%(n)d key", "%(n)d keys", n); pgettext("verb", "order")'
    )
    (tmp_path / "templates" / "a.html").write_text(
        '{% load i18n %}\n  <p>{% translate "from a template" %}</p>\n'
        '<a title="{% translate "from an attribute" %}">\n'
        "{% blocktranslate with n=x %}a block of {{ n }}{% endblocktranslate %}\n"
        '{% include "b.html" with title=_("from an argument") %}'
    )
    (tmp_path / "static" / "js" / "a.js").write_text('say(gettext("from a script"));')
    return tmp_path, tmp_path / "locale"


def test_python_templates_and_scripts_are_read(tmp_path: Path) -> None:
    root, _source = project(tmp_path)
    assert set(messages(root)) == {
        Wanted("from Python"),
        Wanted("%(n)d key", "%(n)d keys"),
        Wanted("order", "", "verb"),
        Wanted("from a template"),
        Wanted("from an attribute"),
        Wanted("a block of %(n)s"),
        Wanted("from an argument"),
    }
    assert set(script_messages(root)) == {Wanted("from a script")}


def test_what_is_missing_guessed_or_left_over_is_said(tmp_path: Path) -> None:
    root, source = project(tmp_path)
    assert len(problems(root, source)) == 8
    assert complete(root, source, "mine") == (8, 0)
    assert len(problems(root, source)) == 8
    catalog = source / "zh_Hans" / "mine.po"
    text = catalog.read_text(encoding="utf-8")
    text = text.replace('msgid "from Python"\nmsgstr ""', 'msgid "from Python"\nmsgstr "来自"')
    text = text.replace('%(n)s"\nmsgstr ""', '%(n)s"\nmsgstr "%(m)s 块"')
    text += '\nmsgid "not used"\nmsgstr "没用"\n'
    catalog.write_text(text, encoding="utf-8")
    found = problems(root, source)
    assert not [line for line in found if "from Python" in line]
    assert "zh_Hans: other placeholders than in English: 'a block of %(n)s'" in "\n".join(found)
    assert "zh_Hans: nobody asks for: 'not used'" in found
    assert complete(root, source, "other") == (0, 1)
    assert "来自" in catalog.read_text(encoding="utf-8")


def test_parts_of_a_language_are_compiled_together(tmp_path: Path) -> None:
    source, target = tmp_path / "locale", tmp_path / "built"
    (source / "zh_Hans").mkdir(parents=True)
    for name, text in (("a", "one"), ("b", "two"), ("scripts", "three")):
        (source / "zh_Hans" / f"{name}.po").write_text(f'msgid "{text}"\nmsgstr "{text}!"\n')
    compile_all(source, target)
    built = target / "zh_Hans" / "LC_MESSAGES"
    assert b"one!" in (built / "django.mo").read_bytes()
    assert b"two!" in (built / "django.mo").read_bytes()
    assert b"three!" in (built / "djangojs.mo").read_bytes()


def test_the_switch_in_the_header_is_remembered(client: Client, db: None) -> None:
    page = client.get("/accounts/login/")
    assert page.headers["Content-Language"] == "en"
    assert "简体中文" in page.content.decode()
    form = {"language": "zh-hans", "next": "/accounts/login/"}
    assert client.post("/accounts/language/", form).headers["Location"] == "/accounts/login/"
    page = client.get("/accounts/login/")
    assert page.headers["Content-Language"] == "zh-hans"
    assert "登录" in page.content.decode()
    assert '<html lang="zh-hans">' in page.content.decode()
    translation.deactivate()


def test_the_browsers_own_language_counts_without_a_choice(client: Client, db: None) -> None:
    for asked, given in (("zh-CN,zh;q=0.9", "zh-hans"), ("fr", "en")):
        page = client.get("/accounts/login/", headers={"accept-language": asked})
        assert page.headers["Content-Language"] == given
    translation.deactivate()
