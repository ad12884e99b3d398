"""`psclust report`: what a run came to, as a page."""

from __future__ import annotations

from pathlib import Path

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import files, run_names
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.errors import UsageError


@click.command()
@click.argument("name", required=False, shell_complete=run_names(live=False))
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    shell_complete=files,
    help="Where to write the page (default: NAME-report.html here).",
)
@click.option("--text", "as_text", is_flag=True, help="Print it as text.")
@json_option
@run_dir_option
def command(
    name: str | None, target: str | None, as_text: bool, as_json: bool, run_dir: str | None
) -> None:
    """Write a page about a run, live or ended: tasks and attempts over time, what happened and why,
    loss, speed, what each task used, where variables, model and logs are, the cluster file. One
    HTML file, which needs no network.

    \b
    psclust report                    of the live run, else of the last one
    psclust report digits --text
    """
    if (as_text or as_json) and target is not None:
        raise UsageError(
            "-o is for the page; "
            f"write the other with `psclust report {'--json' if as_json else '--text'} > FILE`."
        )
    from psclust.cli.run_report.contents import numbers
    from psclust.cli.run_report.page import render_page
    from psclust.cli.run_report.plain_text import render_text
    from psclust.cli.run_report.story import read_story

    cluster = find_cluster(name, run_dir, live=False)
    folder = current_run(cluster)
    story = read_story(folder, job_runs().status(folder))
    if as_json:
        output.data(numbers(story))
        return
    if as_text:
        output.say("\n".join(render_text(story)))
        return
    path = Path(target or f"{cluster.name}-report.html")
    try:
        path.write_text(render_page(story), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; choose another place with -o.") from None
    output.say(f"{cluster.name} {story.outcome}; its report: {path}")
