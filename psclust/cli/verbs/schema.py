"""`psclust schema`: the cluster file's JSON Schema."""

from __future__ import annotations

import click

from psclust.cli import output


@click.command()
def command() -> None:
    """Print the JSON Schema of the cluster file; editors complete and check with it."""
    from psclust.spec.load import json_schema

    output.data(json_schema())
