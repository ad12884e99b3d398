"""`psclust up`: start a cluster and stay with it until it ends; on a running one, change what
differs."""

from __future__ import annotations

import click

from psclust.cli.request_options import REQUEST_CONTEXT, request_options
from psclust.cli.way_options import is_submitted, way_options


@click.command(context_settings=REQUEST_CONTEXT)
@request_options
@click.option("-d", "--detach", is_flag=True, help="Leave the run alone once it is up.")
@click.option(
    "--top", is_flag=True, help="Show the table of `psclust top` in place of what tasks print."
)
@click.option(
    "--keep-tensorboard",
    "keep",
    is_flag=True,
    help="Leave TensorBoard running when the run has ended.",
)
@way_options("up")
@click.option(
    "--held",
    type=int,
    metavar="PID",
    hidden=True,
    help="For programs that start runs; see `psclust.cli.held_by_program`.",
)
@click.option(
    "--dry-run", is_flag=True, help="Start nothing, show what would be started: `psclust plan`."
)
def command(
    detach: bool,
    top: bool,
    keep: bool,
    held: int | None,
    dry_run: bool,
    **flags: object,
) -> int:
    """Start a cluster, train on it, watch it, end it.

    PROGRAM is train.py, module:program, -m module, or -- any command; without one the cluster is
    bare servers. Options come before PROGRAM; everything after it belongs to the program.

    \b
    psclust up psclust.examples.digits:program
    psclust up --ps 2 --workers 4 train.py --lr 0.1
    """
    if is_submitted(flags):
        from psclust.cli.submitting import submitted

        return submitted(flags, only_show=dry_run)
    if dry_run:
        from psclust.cli.verbs.plan import show

        return show(flags)
    # Loads the reader of cluster files and the planner.
    from psclust.cli.misplaced_options import warn_of_misplaced_options
    from psclust.cli.request import request_from_flags
    from psclust.cli.starting import started

    request = request_from_flags(**flags)  # type: ignore[arg-type]
    warn_of_misplaced_options(request, flags["program"])  # type: ignore[arg-type]
    return started(request, held, detach=detach, top=top, keep=keep)
