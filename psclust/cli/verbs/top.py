"""`psclust top`: what every task of a live run uses, and how far it is."""

from __future__ import annotations

from contextlib import suppress

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.run_selection import current_run, find_cluster
from psclust.errors import NoRunError

_LEAST_S = 0.5


@click.command()
@click.argument("name", required=False, shell_complete=run_names(live=True))
@click.option("--once", is_flag=True, help="Print it once, of one interval, and end.")
@click.option(
    "-i",
    "--interval",
    "seconds",
    type=click.FloatRange(min=_LEAST_S),
    default=2.0,
    show_default=True,
    help="Seconds between looks.",
)
@json_option
@run_dir_option
def command(
    name: str | None, once: bool, seconds: float, as_json: bool, run_dir: str | None
) -> None:
    """Show, for each task of a live run: CPU, memory, GPU where there is one (nvidia-smi), bytes in
    and out a second (TCP, acknowledged), step, examples a second, staleness, and how long ago its
    step or phase last changed; and which ps moves the most. Until the run ends, or Ctrl-C.

    With --json, or where the output is no terminal: one look, without colors.
    """
    from rich.console import Console
    from rich.live import Live

    from psclust.cli.top_looks import TopTable, looks
    from psclust.control.supervisor_client import SupervisorClient

    cluster = find_cluster(name, run_dir, live=True)
    console = Console(soft_wrap=False)
    table = TopTable(cluster.name)
    with SupervisorClient(current_run(cluster)) as client:
        found = looks(client.readings, seconds)
        if as_json:
            output.data([row.to_dict() for row in next(found)])
            return
        if once or not console.is_terminal:
            console.print(table.render(next(found), console.width))
            return
        with (
            suppress(NoRunError, KeyboardInterrupt),
            Live(console=console, auto_refresh=False) as live,
        ):
            for each in found:
                live.update(table.render(each, console.width), refresh=True)
