"""`psclust clusters`: the clusters that were started here."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.run_selection import current_run, job_runs, known_clusters
from psclust.errors import NoRunError
from psclust.rundir.folder import ClusterFolder
from psclust.rundir.origin import Origin


@dataclass(frozen=True, slots=True)
class _Row:
    """`age`: seconds since the last run began."""

    name: str
    state: str
    run: str
    tasks: int
    hosts: tuple[str, ...]
    age: float
    live: bool
    origin: str | None


@click.command()
@json_option
@run_dir_option
def command(as_json: bool, run_dir: str | None) -> None:
    """List the clusters that were started on this machine: state, tasks and their hosts, and the
    cluster file or folder each was started from. Live ones come first, then the latest."""
    found = [row for cluster in known_clusters(run_dir) if (row := _row(cluster)) is not None]
    rows = sorted(found, key=lambda row: (not row.live, row.age))
    if as_json:
        output.data([asdict(row) for row in rows])
        return
    if not rows:
        output.say("no cluster has been started here yet; start one with `psclust up`.")
        return
    output.table(
        ("NAME", "STATE", "AGE", "TASKS", "HOSTS", "RUN", "FROM"),
        [
            (
                row.name,
                row.state,
                output.duration(row.age),
                str(row.tasks),
                _shortened(row.hosts),
                row.run,
                row.origin or "-",
            )
            for row in rows
        ],
    )


def _row(cluster: ClusterFolder) -> _Row | None:
    """None for a cluster without a status yet."""
    try:
        folder = current_run(cluster)
        status = job_runs().status(folder)
    except NoRunError:
        return None
    state = (
        status.phase
        if not status.ended
        else "ended well"
        if status.ok
        else f"failed ({status.exit_code})"
    )
    hosts = tuple(dict.fromkeys(task.host for task in status.tasks))
    origin = Origin.read(folder)
    return _Row(
        name=cluster.name,
        state=state,
        run=status.run,
        tasks=len(status.tasks),
        hosts=hosts,
        age=status.age(status.began),
        live=not status.ended,
        origin=str(origin) if origin else None,
    )


def _shortened(hosts: tuple[str, ...]) -> str:
    return ",".join(hosts) if len(hosts) <= 4 else f"{','.join(hosts[:3])},... ({len(hosts)})"
