"""The part of the cluster file's JSON Schema that describes the key at a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from psclust.spec.cluster_file import json_schema
from psclust.spec.problems import KeyPath

Schema = Mapping[str, Any]


def takes_text(path: KeyPath) -> bool:
    """Whether a scalar there is a text as it is written, whatever it looks like. Of a time, a
    number stays one."""
    kinds = [_kinds(option) for option in alternatives(schema_at(path))]
    return any("string" in each and each != {"string", "number"} for each in kinds)


def _kinds(schema: Schema) -> set[str]:
    kinds = schema.get("type", ())
    return {kinds} if isinstance(kinds, str) else set(kinds)


def schema_at(path: KeyPath) -> Schema:
    """The schema of the value at `path`; empty if there is none."""
    schema = _whole()
    for step in path:
        options = alternatives(schema)
        schema = next(
            (inner for option in options if (inner := _child(option, step)) is not None), {}
        )
    return schema


def keys_at(path: KeyPath) -> list[str]:
    """Those of the mapping at `path`, if it has keys of its own."""
    return [key for option in alternatives(schema_at(path)) for key in option.get("properties", ())]


def _child(schema: Schema, step: str | int) -> Schema | None:
    if isinstance(step, int):
        return schema.get("items")
    inner = schema.get("properties", {}).get(step)
    if inner is None:
        inner = (
            next(iter(schema.get("patternProperties", {}).values()), None)
            or schema.get("additionalProperties")
            or None
        )
    return inner if isinstance(inner, Mapping) else None


def alternatives(schema: Schema) -> Iterator[Schema]:
    """The notations of a value, each with its schema."""
    if "anyOf" not in schema:
        yield schema
    for option in schema.get("anyOf", ()):
        yield from alternatives(option)


@cache
def _whole() -> Schema:
    schema = json_schema()
    whole: Schema = _with_definitions(schema, schema["$defs"])
    return whole


def _with_definitions(part: Any, definitions: Schema) -> Any:
    """With each definition in the place of the references to it."""
    if isinstance(part, list):
        return [_with_definitions(each, definitions) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _with_definitions(definitions[part["$ref"].rpartition("/")[2]], definitions)
    return {key: _with_definitions(each, definitions) for key, each in part.items()}
