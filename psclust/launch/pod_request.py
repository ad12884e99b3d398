"""The plan that a pod makes for its task, from its environment and the program in its image."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from psclust.errors import StartError, UsageError
from psclust.launch.program_sources import read_scripts
from psclust.plan.build_plan import Run
from psclust.plan.cluster_layout import lay_out
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Plan
from psclust.pods.file_in_pod import read_file
from psclust.pods.job_object import RUN_VARIABLE
from psclust.pods.names import INDEX
from psclust.pods.pod_plan import plan_pods, with_pods
from psclust.spec.cluster import Task, no_such_task
from psclust.spec.spelling import nearest
from psclust.spec.whole_number import whole_number
from psclust.transport.server_shim import server_shim


def plan_in_pod(
    environ: Mapping[str, str], job: str, index: int | None, folder: str
) -> tuple[Task, Plan]:
    """The pod's task and the plan of its cluster. `index`: None for the one that Kubernetes has
    set. `folder`: of the run, in this pod. Raises UsageError."""
    file = with_pods(read_file(environ))
    layout = lay_out(file)
    known = [entry.name for entry in layout.jobs]
    if job not in known:
        near = nearest(job, known)
        raise UsageError(
            f"{job}: the cluster has no such job; "
            + (f"did you mean {near}?" if near else f"its jobs are {', '.join(known)}.")
        )
    task = Task(job, _index(environ) if index is None else index)
    count = layout.job(job).job.count
    if task.index >= count:
        raise UsageError(no_such_task(task, count))
    here = HostEnvironment(
        environ=dict(environ), cwd=os.getcwd(), python=sys.executable, shim=server_shim()
    )
    run = Run(environ.get(RUN_VARIABLE) or file.name, folder)
    return task, plan_pods(file, layout, here, run, read_scripts(file, layout, environ))


@contextmanager
def folder_in_pod() -> Iterator[str]:
    """The run's folder in this pod, which is gone afterwards: restarts of its container may share
    /tmp. Raises StartError."""
    try:
        folder = tempfile.TemporaryDirectory(prefix="psclust-", ignore_cleanup_errors=True)
    except OSError as error:
        raise StartError(
            f"no temporary folder can be made in this pod ({error.strerror}); "
            "mount an emptyDir at /tmp."
        ) from None
    with folder as name:
        yield name


def _index(environ: Mapping[str, str]) -> int:
    text = environ.get(INDEX, "")
    index = whole_number(text)
    if index is None:
        found = f"found '{text}' in {INDEX}" if text else f"{INDEX} is not set"
        raise UsageError(
            f"{found}: the pods of an indexed Job have it; "
            "elsewhere give the task's index with --index."
        )
    return index
