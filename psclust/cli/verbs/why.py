"""`psclust why`: what every task of a live run does, and which task waits for which."""

from __future__ import annotations

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.run_selection import current_run, find_cluster


@click.command()
@click.argument("name", required=False)
@json_option
@run_dir_option
def command(name: str | None, as_json: bool, run_dir: str | None) -> None:
    """Show what every task of a live run does, since when, and which tasks it waits for; then where the Python of programs that wait is.
    No task is stopped for it."""
    from psclust.control.supervisor_client import SupervisorClient
    from psclust.supervise.task_finding import render

    cluster = find_cluster(name, run_dir, live=True)
    with SupervisorClient(current_run(cluster)) as client:
        findings = client.explain()
    if as_json:
        output.data([each.to_dict() for each in findings])
        return
    for line in render(findings, output.duration):
        output.say(line)
