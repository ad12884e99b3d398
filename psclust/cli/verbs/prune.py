"""`psclust prune`: remove old runs."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click

from psclust.cli import output
from psclust.cli.ages import parse_age
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.run_selection import known_clusters
from psclust.errors import StartError, UsageError
from psclust.placement.table import format_bytes
from psclust.rundir.folder import KEPT_RUNS, ClusterFolder, RunFolder, state_root
from psclust.rundir.old_runs import (
    KEPT_IN_ALL,
    OldRun,
    chosen,
    has_left_something,
    old_runs,
    remove,
    size,
)
from psclust.spec.plurals import counted


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME...]", shell_complete=run_names(live=False))
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    metavar="N",
    help="Keep the last N runs of each name (default: 0).",
)
@click.option(
    "--older-than", metavar="AGE", help="Only runs that ended longer ago: 30min, 12h, 7d, 4w."
)
@click.option("--dry-run", is_flag=True, help="Remove nothing, show what would be removed.")
@json_option
@run_dir_option
def command(
    names: tuple[str, ...],
    keep: int | None,
    older_than: str | None,
    dry_run: bool,
    as_json: bool,
    run_dir: str | None,
) -> None:
    """Remove the folders of runs that have ended: logs, and models trained into them. A live run
    stays.

    \b
    psclust prune mnist              all old runs of mnist
    psclust prune --keep 1           all but the last of each name
    psclust prune --older-than 7d    runs that ended more than a week ago
    """
    root = state_root(os.environ, run_dir)
    there = known_clusters(run_dir)
    unknown = set(names) - {cluster.name for cluster in there}
    if unknown:
        known = ", ".join(cluster.name for cluster in there) or "none"
        raise UsageError(f"{', '.join(sorted(unknown))}: no run of that name; there is: {known}.")
    if not names and keep is None and older_than is None:
        raise UsageError(
            "say which runs: NAME, --keep 1, --older-than 7d. "
            f"By itself, `up` keeps the last {KEPT_RUNS} of a name, {KEPT_IN_ALL} in all."
        )
    before = None if older_than is None else time.time() - parse_age(older_than, "--older-than")
    runs = chosen(old_runs(root), names=names, keep=keep, older_than=before)
    sizes = [size(RunFolder(root / run.name / run.run)) for run in runs]
    gone = [] if dry_run else remove(root, runs)
    if as_json:
        output.data(
            [
                {
                    "name": run.name,
                    "run": run.run,
                    "age": _age(run),
                    "bytes": count,
                    "removed": run in gone,
                }
                for run, count in zip(runs, sizes, strict=True)
            ]
        )
    else:
        _show(runs, sizes, runs if dry_run else gone, "would remove" if dry_run else "removed")
    stuck = [run for run in runs if run not in gone and not dry_run]
    if stuck:
        raise StartError("\n".join(_why_not(ClusterFolder(root / run.name), run) for run in stuck))


def _show(runs: Sequence[OldRun], sizes: Sequence[int], which: Sequence[OldRun], done: str) -> None:
    """sizes: in bytes. which: those of `runs` to show."""
    shown = [(run, count) for run, count in zip(runs, sizes, strict=True) if run in which]
    if shown:
        output.table(
            ("NAME", "ENDED", "SIZE", "RUN"),
            [
                (run.name, f"{output.duration(_age(run))} ago", format_bytes(count), run.run)
                for run, count in shown
            ],
        )
    total = f"{counted(len(shown), 'run')}, {format_bytes(sum(count for _, count in shown))}"
    output.say(f"{done} {total}" if runs else "no old run fits; nothing is removed")


def _age(run: OldRun) -> float:
    """Seconds since the run ended."""
    return max(0.0, time.time() - run.ended)


def _why_not(cluster: ClusterFolder, run: OldRun) -> str:
    if run.is_last and has_left_something(cluster):
        return (
            f"{run.name}: its last run stays, as it has left files on other hosts; first: "
            f"psclust down --purge {run.name}"
        )
    return f"{cluster.path / run.run} could not be removed; is it yours?"
