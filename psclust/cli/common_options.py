"""Options of many verbs, kept apart from those of `up`, whose module imports the cluster file
reader."""

from __future__ import annotations

import click

run_dir_option = click.option(
    "--run-dir", metavar="DIR", help="Where runs are kept (default: the XDG state directory)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
