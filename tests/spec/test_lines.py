"""YAML with its lines: what scalars become, and what each way of breaking the syntax is called."""

from __future__ import annotations

import time

import pytest

from psclust.spec.yaml_lines import Document, read_yaml


def read(text: str) -> Document:
    return read_yaml(text)


SYNTAX = {
    "jobs:\n\tps: 1": (2, "the line is indented with a tab; YAML wants spaces."),
    "a: 1\nb: @x": (
        2,
        "a text cannot begin with this sign (@ ` % and others); put the text in quotes.",
    ),
    "jobs:\n  ps 2\n  worker: 3": (
        3,
        (
            "a colon where none is expected; look for a key without a colon above, "
            "a wrong indentation, or a text with ': ' that needs quotes."
        ),
    ),
    "jobs: {}\nps 2\n": (
        2,
        "a key without a colon; write key: value, and quote a text that runs over several lines.",
    ),
    "args: [--ps={ps_hosts}]": (
        1,
        (
            "the list in [ ] is not closed, or holds a text with { } or [ ] without quotes; "
            "close it, or quote the text."
        ),
    ),
    "args: [a, , b]": (
        1,
        "an item is missing beside a comma or bracket; add it, or remove the comma.",
    ),
    "jobs: {ps: 1": (1, "the mapping in { } is not closed, or a comma is missing."),
    'x: 1\nname: "abc\nfoo: 1': (2, "a quote is opened here and never closed."),
    'x: "a" b': (
        1,
        (
            "something stands after the closing quote; put the whole text in quotes, "
            "and double a quote inside it ('it''s')."
        ),
    ),
    "a: *.py": (1, "a text that begins with * must be in quotes."),
    "a: *x": (
        1,
        (
            "a text that begins with * refers to an anchor that does not exist; "
            "put the text in quotes."
        ),
    ),
    "a: &": (1, "a text that begins with & must be in quotes."),
    "a: 1\n---\nb: 1": (2, "a second document (---) begins here; keep one cluster to a file."),
    "jobs:\n  ps: 1\n worker: 2": (
        3,
        "the indentation does not fit the lines above; indent the keys of one mapping alike.",
    ),
    "a: 1\nb: \x07": (2, "a character that does not belong in a text file; remove it."),
    "[" * 5000: (None, "the brackets or indentation nest too deeply to be a cluster file."),
}

SUSPECT = {
    "a: 1\nb: 2\na: 3": (("a",), 3, "is given twice, first on line 1; keep one."),
    "jobs:\n  ps:\n  worker: 2": (
        ("jobs", "ps"),
        2,
        "has no value; write one, or remove the line.",
    ),
    "args:\n  - a\n  -\n": (
        ("args", 1),
        3,
        "this item of the list is empty; write its value, or '' for an empty text.",
    ),
    "args:\n  - {ps_hosts}": (
        ("args", 0),
        2,
        "YAML takes {ps_hosts} for a mapping; write it in quotes: '{ps_hosts}'.",
    ),
    "a: &a [*a]": (
        ("a", 0),
        1,
        "this alias (*) stands inside what it refers to; write the value out.",
    ),
    "a: !secret x": (("a",), 1, "the tag !secret has no meaning here; remove it."),
    "? [a, b]\n: 1": (
        (),
        1,
        "a key must be a single word; if this is a text with { } or [ ], put it in quotes.",
    ),
    "b:\n  <<: 3": (("b",), 2, "<< takes a mapping, such as << : *common."),
}


@pytest.mark.parametrize("text", SYNTAX, ids=range(len(SYNTAX)))
def test_broken_syntax_is_explained_with_its_line(text: str) -> None:
    document = read(text)
    assert document.data is None
    assert [(problem.line, problem.text) for problem in document.problems] == [SYNTAX[text]]


@pytest.mark.parametrize("text", SUSPECT, ids=range(len(SUSPECT)))
def test_what_yaml_lets_pass_is_still_a_mistake(text: str) -> None:
    assert [(problem.path, problem.line, problem.text) for problem in read(text).problems] == [
        SUSPECT[text]
    ]


def test_an_unfamiliar_error_still_says_what_yaml_said() -> None:
    [problem] = read("%YAML 3.0\n---\na: 1").problems
    assert problem.text.startswith("this is not YAML (")


def test_texts_stay_as_they_were_written() -> None:
    data = read(
        "env: {A: 010, B: 1.10, C: yes, D: True}\nargs: [0x10, 1e3, 12:30, 2024-01-01]\n"
        "name: 7\nports: 2222\ndeadlines: {run: 1.50, stop: 2m}\n"
        "jobs: {ps: 2, worker: {ports: 2300}}\nplacement: {max_shard_bytes: 8}\n"
        "kubernetes: {pod: {x: 010}, resources: {ps: {cpu: 1.0}}}"
    ).data
    assert data == {
        "env": {"A": "010", "B": "1.10", "C": "yes", "D": "True"},
        "args": ["0x10", "1e3", "12:30", "2024-01-01"],
        "name": "7",
        "ports": "2222",
        "deadlines": {"run": 1.5, "stop": "2m"},
        "jobs": {"ps": 2, "worker": {"ports": "2300"}},
        "placement": {"max_shard_bytes": "8"},
        "kubernetes": {"pod": {"x": "010"}, "resources": {"ps": {"cpu": "1.0"}}},
    }


def test_numbers_and_booleans_are_those_of_json() -> None:
    data = read("x: [3, -1, 0.5, 1e3, true, False, null, 010, yes, 12:30, .inf]").data
    assert data == {"x": [3, -1, 0.5, 1000.0, True, False, None, "010", "yes", "12:30", ".inf"]}


def test_every_key_and_item_has_its_line() -> None:
    lines = read("name: x\njobs:\n  ps: 1\n  worker:\n    args:\n      - a\n      - b\n").lines
    assert lines == {
        ("name",): 1,
        ("jobs",): 2,
        ("jobs", "ps"): 3,
        ("jobs", "worker"): 4,
        ("jobs", "worker", "args"): 5,
        ("jobs", "worker", "args", 0): 6,
        ("jobs", "worker", "args", 1): 7,
    }


def test_merge_keys_bring_in_what_is_not_given() -> None:
    document = read("a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc:\n  <<: [*a, *b]\n  x: 5\n")
    assert document.data == {
        "a": {"x": 1, "y": 2},
        "b": {"y": 3, "z": 4},
        "c": {"x": 5, "y": 2, "z": 4},
    }
    assert document.problems == ()


def test_an_alias_bomb_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 30)
    ]
    began = time.process_time()
    document = read("\n".join(lines))
    assert time.process_time() - began < 5
    assert [(problem.line, problem.text) for problem in document.problems] == [
        (6, "the aliases (*) stand for far too many values; write out what is meant.")
    ]
