"""Records from JSON have the types that they declare."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from psclust.spec.typed_json import Measured, build, converter, parse_json


@dataclass(frozen=True)
class Part:
    name: str
    at: tuple[int, str] = (0, "")


@dataclass(frozen=True)
class Whole:
    part: Part
    parts: tuple[Part, ...]
    kind: Literal["a", "b"]
    text: str | None
    seconds: float = 0.0
    loss: Measured = 0.0
    counts: Mapping[str, int] = field(default_factory=dict)
    rest: Any = None


RIGHT = {"part": {"name": "p"}, "parts": [{"name": "q", "at": [1, "x"]}], "kind": "a", "text": None}


def test_a_record_is_made_with_its_parts() -> None:
    data = {**RIGHT, "loss": math.inf, "counts": {"a": 1}, "rest": [None], "of a later version": 1}
    part, other = Part("p"), Part("q", (1, "x"))
    assert build(Whole, data) == Whole(part, (other,), "a", None, 0.0, math.inf, {"a": 1}, [None])


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"part": {}}, "part: name is missing"),
        ({"part": {"name": 1}}, "part: name: 1 is not allowed here"),
        ({"part": []}, "part: a list is not a JSON object"),
        ({"parts": {}}, "parts: an object is not allowed here"),
        ({"parts": [{"name": "q", "at": [1]}]}, "parts: at: a list is not allowed here"),
        ({"kind": "c"}, "kind: 'c' is not allowed here"),
        ({"text": True}, "text: True is not allowed here"),
        ({"seconds": math.nan}, "seconds: nan is not allowed here"),
        ({"seconds": 1 << 64}, f"seconds: {1 << 64} is not allowed here"),
        ({"counts": {"a": True}}, "counts: True is not allowed here"),
        ({"counts": {"a": 1.5}}, "counts: 1.5 is not allowed here"),
    ],
)
def test_another_value_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as found:
        build(Whole, {**RIGHT, **changed})
    assert str(found.value) == message


def test_text_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


def test_a_type_without_json_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="bytes"):
        converter(bytes)
