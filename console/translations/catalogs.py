"""Catalogs on disk: reading, completing, checking and compiling them."""

import re
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from .extraction import Wanted, messages, script_messages

SCRIPTS = "scripts"
PLACEHOLDER = re.compile(r"%(?:\(\w+\))?[sdif%]")


def languages(source: Path) -> list[str]:
    """The languages that there are catalogs of, as gettext names them."""
    return sorted(path.name for path in source.iterdir() if path.is_dir())


def read_part(path: Path, language: str) -> Catalog:
    """One catalog; an empty one where there is no file."""
    if not path.exists():
        return Catalog(locale=language, project="fairlane", charset="utf-8")
    with path.open("rb") as file:
        return read_po(file, locale=language, charset="utf-8", abort_invalid=True)


def complete(root: Path, source: Path, part: str) -> tuple[int, int]:
    """Add what is missing to ``part`` of each language, untranslated, and drop what nobody asks
    for from every part; how many were added and dropped."""
    added = dropped = 0
    for language in languages(source):
        folder = source / language
        everywhere = sorted(folder.glob("*.po"))
        for wanted, paths, home in (
            (messages(root), [p for p in everywhere if p.stem != SCRIPTS], folder / f"{part}.po"),
            (script_messages(root), [], folder / f"{SCRIPTS}.po"),
        ):
            catalogs = {path: read_part(path, language) for path in {*paths, home}}
            held = set()
            for catalog in catalogs.values():
                for message in [each for each in catalog if each.id]:
                    if _key(message) in wanted:
                        held.add(_key(message))
                    else:
                        catalog.delete(message.id, message.context)
                        dropped += 1
            for missing in wanted.keys() - held:
                _add(catalogs[home], missing)
                added += 1
            for path, catalog in catalogs.items():
                _write(path, catalog)
    return added, dropped


def problems(root: Path, source: Path) -> list[str]:
    """What keeps a language from being complete, one line each."""
    found = []
    texts, scripts = messages(root), script_messages(root)
    for language in languages(source):
        for wanted, paths in (
            (texts, [p for p in (source / language).glob("*.po") if p.stem != SCRIPTS]),
            (scripts, [source / language / f"{SCRIPTS}.po"]),
        ):
            held: dict[Wanted, Message] = {}
            for path in sorted(paths):
                for each in read_part(path, language):
                    if not each.id:
                        continue
                    if _key(each) in held:
                        found.append(f"{language}: twice in the catalogs: {each.id!r}")
                    held[_key(each)] = each
            found += [f"{language}: {line}" for line in _gaps(wanted, held)]
    return found


def compile_all(source: Path, target: Path) -> None:
    """All parts of each language into Django's two catalogs below ``target``."""
    for language in languages(source):
        folder = target / language / "LC_MESSAGES"
        folder.mkdir(parents=True, exist_ok=True)
        everything = Catalog(locale=language, charset="utf-8")
        scripts = Catalog(locale=language, charset="utf-8")
        for path in sorted((source / language).glob("*.po")):
            into = scripts if path.stem == SCRIPTS else everything
            for each in read_part(path, language):
                if each.id:
                    into.add(each.id, each.string, context=each.context)
        for catalog, name in ((everything, "django.mo"), (scripts, "djangojs.mo")):
            draft = folder / f".{name}"
            with draft.open("wb") as file:
                write_mo(file, catalog)
            draft.replace(folder / name)


def _gaps(wanted: dict[Wanted, str], held: dict[Wanted, Message]) -> list[str]:
    lines = []
    for each, place in sorted(wanted.items()):
        message = held.get(each)
        if message is None or not _strings(message) or not all(_strings(message)):
            lines.append(f"not translated: {each.text!r} ({place})")
        elif message.fuzzy:
            lines.append(f"only guessed: {each.text!r} ({place})")
        elif any(_marks(text) != _marks(each.plural or each.text) for text in _strings(message)):
            lines.append(f"other placeholders than in English: {each.text!r} ({place})")
    lines += [f"nobody asks for: {each.text!r}" for each in sorted(held.keys() - wanted.keys())]
    return lines


def _marks(text: str) -> list[str]:
    return sorted(PLACEHOLDER.findall(text))


def _strings(message: Message) -> tuple[str, ...]:
    if isinstance(message.string, tuple | list):
        return tuple(message.string)
    return (str(message.string or ""),)


def _key(message: Message) -> Wanted:
    context = message.context or ""
    if isinstance(message.id, tuple | list):
        return Wanted(message.id[0], message.id[1], context)
    return Wanted(message.id, "", context)


def _add(catalog: Catalog, wanted: Wanted) -> None:
    identity = (wanted.text, wanted.plural) if wanted.plural else wanted.text
    catalog.add(identity, context=wanted.context or None)


def _write(path: Path, catalog: Catalog) -> None:
    """In one order and without places in files, so that merges meet as little as possible."""
    if not any(each.id for each in catalog):
        path.unlink(missing_ok=True)
        return
    with path.open("wb") as file:
        write_po(file, catalog, omit_header=True, no_location=True, sort_output=True, width=96)
