"""Pages of the site that are made from the project itself: the README, the changelog, every verb
with its options, every key of the cluster file, and the Python names. A hook of mkdocs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import psclust
from psclust.cli.main import VERBS
from psclust.cli.main import psclust as group
from psclust.spec.load import json_schema

ROOT = Path(__file__).parents[1]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {
        "index.md": of_root("README.md"),
        "changelog.md": of_root("CHANGELOG.md"),
        "reference/commands.md": commands(),
        "reference/cluster-file.md": "\n".join(cluster_file(json_schema())),
        "reference/api.md": api(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **details: object) -> str:
    """Links to the README are links to the first page."""
    return markdown.replace("(../README.md", "(index.md")


def of_root(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def commands() -> str:
    parts = ["# Commands\n"]
    for verb in VERBS:
        command = group.get_command(click.Context(group), verb)
        assert command is not None
        with click.Context(command, info_name=f"psclust {verb}", max_content_width=110) as context:
            parts.append(f"## psclust {verb}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def cluster_file(schema: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "# Keys of the cluster file\n\n`psclust schema` prints the same as a JSON Schema. "
        "Each file in `cluster_specs/` shows one idea.\n"
    )
    yield from keys(schema, schema, "")
    for name, part in schema.get("$defs", {}).items():
        if "properties" in part:
            yield f"\n## {name}\n\n{cell(part.get('description', ''))}\n"
            yield from keys(part, schema, name)


def keys(part: Mapping[str, Any], schema: Mapping[str, Any], of: str) -> Iterator[str]:
    yield "\n| key | is | meaning |\n|---|---|---|"
    for name, value in part.get("properties", {}).items():
        yield f"| `{name}` | {cell(kind(value))} | {cell(value.get('description', ''))} |"


def kind(value: Mapping[str, Any]) -> str:
    """What a key may hold, in a few words; other parts of the schema are links."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(kind(option) for option in value["anyOf"]))
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if value.get("type") == "array":
        return f"list of {kind(value.get('items', {}))}"
    if value.get("type") == "object" and isinstance(value.get("additionalProperties"), dict):
        return f"mapping to {kind(value['additionalProperties'])}"
    return {"null": "nothing", "string": "text", "boolean": "true or false"}.get(
        str(value.get("type")), str(value.get("type", "anything"))
    )


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def api() -> str:
    names = [name for name in psclust.__all__ if name not in ("__version__", "schedules")]
    return "\n".join(
        [
            "# Python\n",
            *(f"::: psclust.{name}\n" for name in names),
            "## Schedules\n",
            "::: psclust.train.schedules\n",
        ]
    )
