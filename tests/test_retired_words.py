"""Retired words stay out of psclust: of its identifiers, docstrings, comments and messages (see
docs/glossary.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for path in (ROOT / "psclust").rglob("*")
    if path.suffix in (".py", ".proto") and "_pb2" not in path.name
)

# Retired word -> the word to use. Plurals and verb forms are retired as well.
RETIRED = {
    "anybody": "a noun",
    "cure": "remedy",
    "everybody": "a noun",
    "exchange": "all-reduce",
    "fleet": "remote transport",
    "hear": "a verb of messages: receive, read",
    "keeper": "agent",
    "ledger": "event log",
    "news": "events or updates",
    "nobody": "a noun",
    "nonce": "incarnation",
    "recipe": "plan inputs",
    "somebody": "a noun",
    "survey": "dry build",
    "told": "reported",
    "whoever": "a noun",
    "wish": "a request",
}
# The same in some parts only: elsewhere these words have another meaning.
RETIRED_IN = {
    "placement": {"cut": "partition"},
    "replication": {"cut": "partition", "driver": "coordinator", "member": "participant"},
    "train": {"driver": "coordinator", "member": "participant"},
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ENDINGS = ("", "s", "d", "ed", "ing")


def retired_in(text: str, words: Mapping[str, str] = RETIRED) -> Iterator[tuple[int, str, str]]:
    """(line, word, the word to use) of every retired word, also within names such as `event_ledger`
    and `LedgerEntry`."""
    forms = {
        stem + end: use
        for word, use in words.items()
        for stem in (word, word.removesuffix("e"))
        for end in _ENDINGS
    }
    for number, line in enumerate(text.splitlines(), 1):
        yield from (
            (number, word, forms[word.lower()])
            for word in _WORD.findall(line)
            if word.lower() in forms
        )


def test_no_retired_word_is_used() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}; write {better}"
        for path in SOURCES
        for line, word, better in retired_in(
            path.read_text(encoding="utf-8"),
            {**RETIRED, **RETIRED_IN.get(path.relative_to(ROOT).parts[1], {})},
        )
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "# the ledger of a host",
        "def make_recipes(): ...",
        "class LedgerEntry: ...",
        '"""Exchanging sums."""',
        "KEEPER = 1",
    ],
)
def test_a_retired_word_would_be_seen(text: str) -> None:
    assert len(list(retired_in(text))) == 1
