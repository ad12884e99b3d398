"""`psclust prune`: remove old runs."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import click

from psclust.cli import output
from psclust.cli.ages import parse_age
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import run_names
from psclust.cli.run_selection import known_clusters
from psclust.errors import StartError, UsageError
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
    rows = [
        _Row(
            run.name,
            run.run,
            max(0.0, time.time() - run.ended),
            size(RunFolder(root / run.name / run.run)),
        )
        for run in runs
    ]
    gone = [] if dry_run else remove(root, runs)
    if as_json:
        output.data(
            [
                {
                    "name": r.name,
                    "run": r.run,
                    "age": r.age,
                    "bytes": r.size,
                    "removed": run in gone,
                }
                for r, run in zip(rows, runs, strict=True)
            ]
        )
    else:
        _show(rows, gone, runs, dry_run=dry_run)
    stuck = [run for run in runs if run not in gone and not dry_run]
    if stuck:
        raise StartError("\n".join(_why_not(ClusterFolder(root / run.name), run) for run in stuck))


@dataclass(frozen=True, slots=True)
class _Row:
    """`age`: seconds since the run ended; `size` in bytes."""

    name: str
    run: str
    age: float
    size: int


def _show(rows: list[_Row], gone: list[OldRun], runs: list[OldRun], *, dry_run: bool) -> None:
    shown = [row for row, run in zip(rows, runs, strict=True) if dry_run or run in gone]
    if shown:
        output.table(
            ("NAME", "ENDED", "SIZE", "RUN"),
            [(r.name, f"{output.duration(r.age)} ago", _size(r.size), r.run) for r in shown],
        )
    total = f"{counted(len(shown), 'run')}, {_size(sum(row.size for row in shown))}"
    output.say(
        f"{'would remove' if dry_run else 'removed'} {total}"
        if rows
        else "no old run fits; nothing is removed"
    )


def _why_not(cluster: ClusterFolder, run: OldRun) -> str:
    if run.is_last and has_left_something(cluster):
        return (
            f"{run.name}: its last run stays, as it has left files on other hosts; first: "
            f"psclust down --purge {run.name}"
        )
    return f"{cluster.path / run.run} could not be removed; is it yours?"


def _size(count: int) -> str:
    return next(
        (
            f"{count / scale:.1f} {unit}"
            for unit, scale in (("GB", 1e9), ("MB", 1e6))
            if count >= scale
        ),
        f"{count / 1e3:.0f} kB",
    )
