"""`psclust rebalance`: place the variables of a live run anew."""

from __future__ import annotations

import click

from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.completions import run_names, values
from psclust.errors import UsageError
from psclust.placement.policies import BALANCED, POLICIES, render_policies


@click.command()
@click.argument("name", required=False, shell_complete=run_names(live=True))
@click.option(
    "--placement",
    "policy",
    metavar="POLICY",
    default=BALANCED,
    show_default=True,
    shell_complete=values(*POLICIES),
    help=f"Which ps holds a variable: {render_policies()}.",
)
@json_option
@run_dir_option
def command(name: str | None, policy: str, as_json: bool, run_dir: str | None) -> int:
    """Place the variables of a live run of a psclust program by another policy: all tasks start
    again, from a checkpoint that they write now. Returns when the training goes on."""
    from psclust.cli.changing import changed
    from psclust.launch.live_change import with_policy
    from psclust.launch.placement_change import why_alike

    if policy not in POLICIES:
        raise UsageError(f"--placement {policy}: the policies are {', '.join(POLICIES)}.")
    return changed(
        name, run_dir, lambda name, file: with_policy(file, policy), as_json, why_alike=why_alike
    )
