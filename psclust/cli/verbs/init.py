"""`psclust init`: a commented cluster file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from psclust.cli import output
from psclust.errors import UsageError
from psclust.launch.up_request import DEFAULT_FILE


@click.command()
@click.argument("program", required=False)
@click.option("-f", "--file", "path", default=DEFAULT_FILE, show_default=True, help="Where to write it.")
@click.option("--name", help="The cluster's name (default: the folder's).")
def command(program: str | None, path: str, name: str | None) -> None:
    """Write a commented cluster file for PROGRAM, ready for `psclust up`. Never overwrites a file."""
    from psclust.spec.starter_file import render_init

    text = render_init(name or Path.cwd().name or "cluster", program)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{path} exists already; it is left as it is. Choose another name with -f.") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}. Choose another place with -f.") from None
    start = "psclust up" if path == DEFAULT_FILE else f"psclust up -f {path}"
    output.say(f"wrote {path}; look at it, then: {start}")
