"""`psclust init`: a commented cluster file to start from."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from psclust.cli import output
from psclust.errors import UsageError
from psclust.launch.default_file import DEFAULT_FILES

if TYPE_CHECKING:
    from psclust.spec.starter_file import Starter

_PROGRAM = "What do you train? train.py, -m package.train, module:program; empty: servers alone"
_HOSTS = "On which hosts? a,b:4,user@c:2; empty: this machine"


@click.command()
@click.argument("program", required=False)
@click.option(
    "--from", "script", metavar="SCRIPT", help="Look at this script, and fill in what it needs."
)
@click.option(
    "-f", "--file", "path", default=DEFAULT_FILES[-1], show_default=True, help="Where to write it."
)
@click.option("--name", help="The cluster's name (default: the folder's).")
def command(program: str | None, script: str | None, path: str, name: str | None) -> None:
    """Write a commented cluster file, ready for `psclust up`, and beside it the schema with which
    editors complete it. Never overwrites a cluster file.

    On a terminal, without PROGRAM and SCRIPT, it asks what you have.
    """
    from psclust.spec.load import json_schema
    from psclust.spec.starter_file import SCHEMA_FILE, Starter, render_init

    if program is not None and script is not None:
        raise UsageError(f"--from {script} and {program}: give one of the two.")
    if os.path.lexists(path):
        raise UsageError(
            f"{path} exists already; it is left as it is. Choose another name with -f."
        )
    name = name or Path.cwd().name or "cluster"
    if script is not None:
        starter = _look_at(name, script)
    elif program is None and sys.stdin.isatty() and sys.stdout.isatty():
        starter = _ask(name)
    else:
        starter = Starter(name, program)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(render_init(starter))
        Path(path).with_name(SCHEMA_FILE).write_text(json.dumps(json_schema()), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}. Choose another place with -f.") from None
    start = "psclust up" if path in DEFAULT_FILES else f"psclust up -f {path}"
    output.say(f"wrote {path}, and {SCHEMA_FILE} for editors; look at it, then: {start}")


def _look_at(name: str, script: str) -> Starter:
    from psclust.launch.starter import look_at

    starter, why = look_at(name, script)
    output.say(why)
    return starter


def _ask(name: str) -> Starter:
    from psclust.spec.starter_file import Starter

    program = click.prompt(_PROGRAM, default="", show_default=False)
    starter = _look_at(name, program) if program.endswith(".py") else Starter(name, program or None)
    ps = click.prompt("How many ps tasks?", default=starter.ps, type=click.IntRange(0, 4096))
    workers = click.prompt(
        "How many workers?", default=starter.workers, type=click.IntRange(0, 4096)
    )
    return replace(
        starter, ps=ps, workers=workers, hosts=click.prompt(_HOSTS, default="", show_default=False)
    )
