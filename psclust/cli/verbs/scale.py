"""`psclust scale`: more or fewer ps and workers for a live run."""

from __future__ import annotations

from collections.abc import Sequence

import click

from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import names_and_counts
from psclust.errors import UsageError
from psclust.spec.whole_number import whole_number


@click.command()
@click.argument(
    "words",
    nargs=-1,
    metavar="[NAME] [JOB=COUNT...]",
    shell_complete=names_and_counts,
)
@click.option(
    "-H",
    "--hosts",
    multiple=True,
    metavar="+HOSTS|-HOSTS",
    help="Hosts that join the run (+e,f:2), or leave it (-e), whose tasks then run on others.",
)
@json_option
@run_dir_option
def command(
    words: tuple[str, ...], hosts: tuple[str, ...], as_json: bool, run_dir: str | None
) -> int:
    """Give a live run of a psclust program other numbers of ps and workers, or other hosts. Returns
    when they run.

    \b
    psclust scale worker=8
    psclust scale mnist worker=8 ps=4
    psclust scale worker=12 -H +e,f:4

    Workers of a run with `input: handed_out` join and leave while it trains: asynchronous
    between-graph workers beside the others; synchronous ones and in-graph clients end their step
    and start again with another graph, while the ps keep the variables. Any other change starts
    all tasks again, from a checkpoint that they write now.
    """
    # Loads the reader of cluster files and the planner.
    from psclust.cli.changing import changed
    from psclust.launch.host_change import parse_host_change
    from psclust.launch.live_change import with_counts

    name, counts = _parse(words)
    host_change = parse_host_change(hosts)
    if not counts and not host_change:
        raise UsageError("say how many tasks, for example worker=8.")
    return changed(
        name,
        run_dir,
        lambda name, file: with_counts(file, counts, name=name),
        as_json,
        hosts=host_change,
    )


def _parse(words: Sequence[str]) -> tuple[str | None, dict[str, int]]:
    """The name of the run, if there is one, and job -> count."""
    names = [word for word in words if "=" not in word]
    if len(names) > 1:
        raise UsageError(
            f"{' '.join(names)}: name one run, then counts such as worker=8, without blanks."
        )
    counts: dict[str, int] = {}
    for word in words:
        job, equals, count = word.partition("=")
        if not equals:
            continue
        number = whole_number(count)
        if number is None:
            raise UsageError(f"{word}: found no number of tasks; write it as worker=8.")
        if counts.setdefault(job, number) != number:
            raise UsageError(f"{word}: contradicts {job}={counts[job]}; give one of the two.")
    return next(iter(names), None), counts
