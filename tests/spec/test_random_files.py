"""Cluster files and lists of hosts made at random: each is one, or refused in a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from psclust.errors import ClusterFileError
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_lists import parse_hostfile, parse_hosts
from psclust.spec.load import json_schema, load

EXAMPLES = [
    path.read_text(encoding="utf-8")
    for path in sorted((Path(__file__).parents[2] / "cluster_specs").glob("*.yaml"))
]


def _words(schema: object) -> set[str]:
    """Every key and word that a cluster file may have."""
    if isinstance(schema, dict):
        own = {*schema.get("properties", {}), *map(str, schema.get("enum", []))}
        return own.union(*map(_words, schema.values()))
    return set().union(*map(_words, schema)) if isinstance(schema, list) else set()


WORDS = sorted({*_words(json_schema()), "ps", "worker", "chief", "evaluator", "a:2", "b", "90s"})
TEXTS = st.sampled_from(WORDS) | st.text(max_size=12)
SINGLE = st.none() | st.booleans() | st.integers() | st.floats() | st.dates() | TEXTS
VALUES = st.recursive(
    SINGLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | SINGLE, inner, max_size=4),
    max_leaves=12,
)
LIKELY = st.fixed_dictionaries(
    {"jobs": st.dictionaries(st.sampled_from(["ps", "worker", "chief"]), VALUES, max_size=3)},
    optional={word: VALUES for word in sorted(json_schema()["properties"]) if word != "jobs"},
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """An example with a part cut out, and something in its place."""
    text = draw(st.sampled_from(EXAMPLES))
    at = draw(st.integers(0, len(text)))
    end = draw(st.integers(at, min(at + 30, len(text))))
    return text[:at] + draw(TEXTS | st.sampled_from("{[]}:,&*!|>'\"%@`#\t\n-?")) + text[end:]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("random") / "cluster.yaml"


def _is_read_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    _ends_well(lambda: load(path, default_name="random"), ClusterFile)


def _is_a_sentence(text: str) -> None:
    assert text.strip()
    assert "Traceback" not in text


def _ends_well(read: Callable[[], Any], kind: type) -> None:
    try:
        assert isinstance(read(), kind)
    except ClusterFileError as error:
        _is_a_sentence(str(error))


@given(LIKELY | st.dictionaries(TEXTS, VALUES) | VALUES)
def test_any_data(path: Path, data: Any) -> None:
    _is_read_or_refused(path, yaml.dump(data, allow_unicode=True).encode("utf-8", "surrogatepass"))


@given(LIKELY)
def test_any_json(path: Path, data: Any) -> None:
    _is_read_or_refused(path, json.dumps(data, default=str, skipkeys=True).encode())


@given(damaged())
def test_an_example_with_a_fault(path: Path, text: str) -> None:
    _is_read_or_refused(path, text.encode("utf-8", "surrogatepass"))


@given(st.text().map(lambda text: text.encode("utf-8", "surrogatepass")) | st.binary())
@example(b"jobs: {worker: " + b"9" * 5000 + b"}")
def test_any_bytes(path: Path, content: bytes) -> None:
    _is_read_or_refused(path, content)


PARTS = ["a", "node", "[", "]", "1", "01-04", "-", "9999999999", ",", ":", "22", "2222", "@", " "]
PARTS += ["slots=", "max_slots=4", "#", "\n", ".", "user", "::1", "=", "\ufeff", "\0", "\u0663"]
HOSTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=12).map("".join)


@given(HOSTS)
def test_any_list_of_hosts(text: str) -> None:
    _ends_well(lambda: parse_hosts(text, where="--hosts"), list)
    _ends_well(lambda: parse_hostfile(text, where="hosts"), list)
