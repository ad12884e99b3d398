"""Reads YAML into plain data, with the line of every value. Keys, and scalars in places that take
text, stay as written: `010`, `1.10` and `yes` reach a program unchanged. Collects mistakes that
YAML itself accepts: a key twice, a key without a value."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import yaml

from psclust.spec.key_schema import takes_text
from psclust.spec.problems import KeyPath, Problem

_TAG = "tag:yaml.org,2002:"
_PLAIN: Mapping[str, Callable[[str], object]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() == "true",
    "null": lambda text: None,
}

# More than any cluster file has: 4096 tasks with an address and arguments of their own.
_MOST_VALUES = 100_000


@dataclass(frozen=True, slots=True)
class Document:
    """The data of a YAML file, the line of every key and list item, and the mistakes found while
    reading."""

    data: object
    lines: Mapping[KeyPath, int]
    problems: tuple[Problem, ...]


class _Loader(yaml.BaseLoader):
    """YAML's syntax with the scalars of JSON: no octal, no sexagesimal, no `yes` or `no`, no
    dates."""


for _name, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"-?(0|[1-9][0-9]{0,17})", "-0123456789"),
    ("float", r"-?(0|[1-9][0-9]*)(\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "-0123456789"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(f"^(?:{_pattern})$"), list(_first))


def read_yaml(text: str) -> Document:
    """What is not YAML yields None, and the mistake that ended the reading."""
    try:
        node = yaml.compose(text, _Loader)  # a BaseLoader: builds no objects
        sizes: dict[int, int] = {}
        if node is None or _size(node, sizes) <= _MOST_VALUES:
            reader = _Reader()
            data = None if node is None else reader.value(node, ())
            return Document(data, reader.lines, tuple(reader.problems))
        problem = _too_many(node, sizes)
    except yaml.YAMLError as error:
        problem = _syntax_problem(error, text)
    except RecursionError:
        problem = Problem((), "the brackets or indentation nest too deeply to be a cluster file.")
    return Document(None, {}, (problem,))


def _too_many(node: yaml.Node, sizes: dict[int, int]) -> Problem:
    """At the line of the first key with too many values."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    line = next((_line(key) for key, value in pairs if sizes[id(value)] > _MOST_VALUES), None)
    return Problem(
        (), "the aliases (*) stand for far too many values; write out what is meant.", line=line
    )


def _size(node: yaml.Node, known: dict[int, int]) -> int:
    """The number of values in a node with all aliases expanded. Visits each node once; an alias
    inside its own node counts once."""
    if id(node) not in known:
        known[id(node)] = 1
        parts = (
            [part for pair in node.value for part in pair]
            if isinstance(node, yaml.MappingNode)
            else node.value
        )
        if not isinstance(node, yaml.ScalarNode):
            known[id(node)] += sum(_size(part, known) for part in parts)
    return known[id(node)]


@dataclass
class _Reader:
    lines: dict[KeyPath, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    _open: list[yaml.Node] = field(default_factory=list)

    def value(self, node: yaml.Node, path: KeyPath) -> object:
        if any(node is parent for parent in self._open):
            self._problem(
                node, path, "this alias (*) stands inside what it refers to; write the value out."
            )
            return None
        self._open.append(node)
        try:
            return self._value(node, path)
        finally:
            self._open.pop()

    def _value(self, node: yaml.Node, path: KeyPath) -> object:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return self._sequence(node, path)
        kind = node.tag.removeprefix(_TAG)
        if kind not in _PLAIN:
            self._problem(
                node,
                path,
                f"the tag {node.tag.replace(_TAG, '!!')} has no meaning here; remove it.",
            )
            return None
        as_written = kind != "null" and takes_text(path)
        return node.value if as_written else _PLAIN[kind](node.value)

    def _sequence(self, node: yaml.SequenceNode, path: KeyPath) -> list[object]:
        items: list[object] = []
        for child in node.value:
            here = (*path, len(items))
            self.lines[here] = _line(child)
            empty = "this item of the list is empty; write its value, or '' for an empty text."
            if (wrong := _no_value(child, empty)) is not None:
                self._problem(child, here, wrong)
            else:
                items.append(self.value(child, here))
        return items

    def _mapping(self, node: yaml.MappingNode, path: KeyPath) -> dict[str, object]:
        result: dict[str, object] = {}
        own: dict[str, int] = {}
        for key_node, child in sorted(node.value, key=lambda pair: not _is_merge(pair[0])):
            if _is_merge(key_node):
                result |= self._merged(child, path)
                continue
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(
                    key_node,
                    path,
                    "a key must be a single word; "
                    "if this is a text with { } or [ ], put it in quotes.",
                )
                continue
            key, here = key_node.value, (*path, key_node.value)
            if key in own:
                self._problem(
                    key_node, here, f"is given twice, first on line {own[key]}; keep one."
                )
                continue
            self.lines[here] = own[key] = _line(key_node)
            result.pop(key, None)
            wrong = _no_value(child, "has no value; write one, or remove the line.")
            if wrong is not None:
                self._problem(key_node, here, wrong)
            else:
                result[key] = self.value(child, here)
        return result

    def _merged(self, node: yaml.Node, path: KeyPath) -> dict[str, object]:
        """The keys that `<<` adds; of several mappings the first one wins."""
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        result: dict[str, object] = {}
        for part in reversed(parts):
            if isinstance(part, yaml.MappingNode):
                merged = self.value(part, path)
                result |= merged if isinstance(merged, dict) else {}
            else:
                self._problem(part, path, "<< takes a mapping, such as << : *common.")
        return result

    def _problem(self, node: yaml.Node, path: KeyPath, text: str) -> None:
        self.problems.append(Problem(path, text, line=_line(node)))


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "" and node.style is None


def _is_merge(key: yaml.Node) -> bool:
    return bool(key.tag == _TAG + "merge")


def _no_value(node: yaml.Node, empty: str) -> str | None:
    """Why this stands for no value: it is `empty`, or a placeholder without quotes: `{ps_hosts}` is
    a mapping to YAML."""
    if _is_empty(node):
        return empty
    if not isinstance(node, yaml.MappingNode) or not node.flow_style or len(node.value) != 1:
        return None
    key, value = node.value[0]
    if not isinstance(key, yaml.ScalarNode) or not _is_empty(value):
        return None
    return f"YAML takes {{{key.value}}} for a mapping; write it in quotes: '{{{key.value}}}'."


# A part of the scanner's message -> an explanation for the author of a cluster file. The first
# match counts.
_SYNTAX = (
    ("'\\t' that cannot start", "the line is indented with a tab; YAML wants spaces."),
    (
        "that cannot start any token",
        "a text cannot begin with this sign (@ ` % and others); put the text in quotes.",
    ),
    (
        "mapping values are not allowed",
        (
            "a colon where none is expected; look for a key without a colon above, "
            "a wrong indentation, or a text with ': ' that needs quotes."
        ),
    ),
    (
        "could not find expected ':'",
        "a key without a colon; write key: value, and quote a text that runs over several lines.",
    ),
    (
        "expected ',' or ']'",
        (
            "the list in [ ] is not closed, or holds a text with { } or [ ] without quotes; "
            "close it, or quote the text."
        ),
    ),
    ("expected ',' or '}'", "the mapping in { } is not closed, or a comma is missing."),
    ("while scanning a quoted scalar", "a quote is opened here and never closed."),
    (
        "undefined alias",
        (
            "a text that begins with * refers to an anchor that does not exist; "
            "put the text in quotes."
        ),
    ),
    ("scanning an alias", "a text that begins with * must be in quotes."),
    ("scanning an anchor", "a text that begins with & must be in quotes."),
    ("duplicate anchor", "this anchor (&) is defined twice; give each its own name."),
    (
        "expected a single document",
        "a second document (---) begins here; keep one cluster to a file.",
    ),
    (
        "but found '<scalar>'",
        (
            "something stands after the closing quote; put the whole text in quotes, "
            "and double a quote inside it ('it''s')."
        ),
    ),
    (
        "expected the node content",
        "an item is missing beside a comma or bracket; add it, or remove the comma.",
    ),
    (
        "expected <block end>",
        "the indentation does not fit the lines above; indent the keys of one mapping alike.",
    ),
    ("unacceptable character", "a character that does not belong in a text file; remove it."),
)


def _syntax_problem(error: yaml.YAMLError, text: str) -> Problem:
    said = " ".join(str(error).split())
    meaning = next((meaning for sign, meaning in _SYNTAX if sign in said), None)
    line: int | None = None
    if isinstance(error, yaml.MarkedYAMLError):
        opened = "simple key" in said or "quoted scalar" in said or "flow" in said
        mark = error.context_mark if opened and error.context_mark else error.problem_mark
        line = mark.line + 1 if mark else None
        said = error.problem or said
    elif isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        said = error.reason
    return Problem((), meaning or f"this is not YAML ({said}).", line=line)
