"""The options that verbs of all kinds take, apart from those of `up`: a verb that reads no cluster file need not import what reads one."""

from __future__ import annotations

import click

run_dir_option = click.option("--run-dir", metavar="DIR", help="Where runs are kept (default: the XDG state directory).")
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
