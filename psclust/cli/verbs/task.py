"""`psclust task`: what a pod of `psclust manifest` runs."""

from __future__ import annotations

import os

import click

from psclust.cli import output
from psclust.pods.pod_process import hold_signals


@click.command()
@click.argument("job")
@click.option(
    "--index",
    type=click.IntRange(0),
    help="The task's index in its job (default: that of the pod).",
)
def command(job: str, index: int | None) -> int:
    """Run one task of a cluster in a pod: what `up` would start, with the pod's own index, address
    and TF_CONFIG.

    `psclust manifest` writes this into its pods, with the cluster file in PSCLUST_FILE. Kubernetes
    sets JOB_COMPLETION_INDEX."""
    from psclust.launch.pod_request import folder_in_pod, plan_in_pod
    from psclust.pods.run_task import run_task

    hold_signals()
    with folder_in_pod() as folder:
        task, plan = plan_in_pod(os.environ, job, index, folder)
        for note in plan.notes:
            output.error(f"note: {note}")
        return run_task(plan, task, output.error)
