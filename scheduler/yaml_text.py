"""YAML as plain data, read strictly.

Only what configuration needs: mappings with text keys, lists and scalars. Duplicate keys,
anchors and aliases, tags, deep nesting, several documents and large files are refused, so
that what a person reads is what takes effect. Scalars follow YAML 1.2: ``yes``, ``010`` and
``1:30`` are text.
"""

import re
from dataclasses import dataclass, field

import yaml

MOST_BYTES = 128 * 1024
MOST_DEPTH = 16

WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]{0,18})")
NUMBER = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]{1,4})?")
PLAIN_WORDS: dict[str, object] = {
    "": None, "null": None, "~": None, "true": True, "false": False,
}  # fmt: skip


class YamlError(ValueError):
    """Text that can't be taken, with the line (from 1) and, where known, the path."""

    def __init__(self, message: str, line: int | None = None, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.path = path


@dataclass(frozen=True, slots=True)
class YamlData:
    """The data, and the line (from 1) on which each path such as ``a.b[0]`` begins."""

    value: object
    lines: dict[str, int]


def load(text: str, most_bytes: int = MOST_BYTES) -> YamlData:
    """Read one YAML document of at most ``most_bytes``. Raises YamlError."""
    if len(text.encode("utf-8", "surrogatepass")) > most_bytes:
        raise YamlError(f"the file is larger than {most_bytes // 1024} KiB")
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = None if mark is None else mark.line + 1
        raise YamlError(f"not valid YAML: {error.problem or error.context}", line) from None
    except yaml.YAMLError as error:
        raise YamlError(f"not valid YAML: {str(error).splitlines()[0]}") from None
    return YamlData(builder.value, builder.lines)


@dataclass(slots=True)
class _Open:
    """A collection that has begun and not ended; ``key`` waits for its value."""

    into: dict[str, object] | list[object]
    path: str
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Builds the data from parser events, without recursion."""

    value: object = None
    lines: dict[str, int] = field(default_factory=dict)
    stack: list[_Open] = field(default_factory=list)
    documents: int = 0

    def take(self, event: yaml.Event) -> None:
        """Use the next event of the parser."""
        line = 0 if event.start_mark is None else event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise YamlError("only one document is allowed", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            self.stack.pop()
        elif isinstance(event, yaml.NodeEvent):
            self._node(event, line)

    def _node(self, event: yaml.NodeEvent, line: int) -> None:
        if event.anchor is not None:
            raise YamlError("anchors and aliases are not allowed", line, self._here())
        if isinstance(event, yaml.ScalarEvent):
            if event.tag is not None:
                raise YamlError("tags are not allowed", line, self._here())
            self._scalar(event, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            if event.tag is not None:
                raise YamlError("tags are not allowed", line, self._here())
            if len(self.stack) >= MOST_DEPTH:
                raise YamlError(f"nested deeper than {MOST_DEPTH} levels", line)
            into: dict[str, object] | list[object]
            into = {} if isinstance(event, yaml.MappingStartEvent) else []
            self.stack.append(_Open(into, self._put(into, line)))

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is not None and isinstance(top.into, dict) and top.key is None:
            top.key = str(event.value)
            if top.key in top.into:
                raise YamlError("the key stands twice", line, self._here())
            self.lines[self._here()] = line
            return
        self._put(_plain(event.value) if event.style is None else event.value, line)

    def _put(self, value: object, line: int) -> str:
        """Put a value in its place and return its path."""
        path = self._here()
        if not self.stack:
            self.value = value
            return path
        top = self.stack[-1]
        if isinstance(top.into, list):
            self.lines[path] = line
            top.into.append(value)
        elif top.key is None:
            raise YamlError("a key must be text", line, path)
        else:
            top.into[top.key] = value
            top.key = None
        return path

    def _here(self) -> str:
        if not self.stack:
            return ""
        top = self.stack[-1]
        if isinstance(top.into, list):
            return f"{top.path}[{len(top.into)}]"
        if top.key is None:
            return top.path
        return f"{top.path}.{top.key}" if top.path else top.key


def _plain(value: str) -> object:
    if value in PLAIN_WORDS:
        return PLAIN_WORDS[value]
    if WHOLE.fullmatch(value):
        return int(value)
    return float(value) if NUMBER.fullmatch(value) else value


class _Dumper(yaml.SafeDumper):
    """Quotes every text that isn't a simple word, so that no reader takes it for a number."""

    def ignore_aliases(self, data: object) -> bool:
        return True


WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if WORD.fullmatch(value) else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: object) -> str:
    """Data as YAML, the innermost collections on one line each; ``load`` reads it back."""
    return str(
        yaml.dump(
            value,
            Dumper=_Dumper,
            sort_keys=False,
            default_flow_style=None,
            width=100,
            allow_unicode=True,
        )
    )
