"""The part of the cluster file's JSON Schema that describes the key at a path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from psclust.spec.problems import KeyPath

Schema = Mapping[str, Any]


def takes_text(path: KeyPath, root: Schema) -> bool:
    """Whether a scalar there is a text as it is written, whatever it looks like. Of a time, a
    number stays one."""
    kinds = [_kinds(option) for option in alternatives(schema_at(root, path, root), root)]
    return any("string" in each and each != {"string", "number"} for each in kinds)


def _kinds(schema: Schema) -> set[str]:
    kinds = schema.get("type", ())
    return {kinds} if isinstance(kinds, str) else set(kinds)


def schema_at(schema: Schema, path: KeyPath, root: Schema) -> Schema:
    """The schema of the value at `path`; empty if there is none."""
    for step in path:
        options = alternatives(schema, root)
        schema = next(
            (inner for option in options if (inner := _child(option, step)) is not None), {}
        )
    return schema


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


def alternatives(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The notations of a value, each with its schema."""
    schema = resolve(schema, root)
    if "anyOf" not in schema:
        yield schema
    for option in schema.get("anyOf", ()):
        yield from alternatives(option, root)


def properties(schema: Schema, root: Schema) -> Mapping[str, Any]:
    return next(
        (option["properties"] for option in alternatives(schema, root) if "properties" in option),
        {},
    )


def resolve(schema: Schema, root: Schema) -> Schema:
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rpartition("/")[2]]
    return schema
