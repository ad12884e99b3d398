"""Runs whose workers may join and leave (`input: handed_out`). Their TensorFlow servers boot
knowing only themselves, and the session of each client brings the cluster; so a change of the
number of workers changes nothing of a ps."""

from __future__ import annotations

import json
from collections.abc import Mapping

from psclust.plan.job_plan import JobPlan
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.jobs import WORKER
from psclust.spec.worker_range import runs_freely

CLUSTER, INPUT = "PSCLUST_CLUSTER", "PSCLUST_INPUT"


def known_cluster(file: ClusterFile, entry: JobPlan, cluster: ClusterSpec, task: Task) -> str:
    """The part of the cluster that the task boots with, as JSON: all of it, or a server's own
    entry."""
    address = cluster.address(task)
    own_only = file.is_elastic and entry.program is None and address is not None
    known = {task.job: {str(task.index): address}} if own_only else cluster.as_dict()
    return json.dumps(known, separators=(",", ":"))


def grows(file: ClusterFile, entry: JobPlan) -> bool:
    """Whether tasks of this job live with any number of workers: asynchronous between-graph
    programs, and observers, which read checkpoints alone."""
    if not file.is_elastic or entry.program is None or not entry.program.is_psclust:
        return False
    return entry.role == "side" or runs_freely(file)


def leaves(file: ClusterFile, entry: JobPlan) -> bool:
    """Whether SIGUSR2 has tasks of this job give back their data, and exit."""
    runs_it = entry.program is not None and entry.program.is_psclust and entry.role == "program"
    return file.is_elastic and runs_it


def without_workers(env: Mapping[str, str]) -> dict[str, str]:
    """The environment as it concerns a task that `grows`: its cluster without workers, except the
    first, which is the chief where there is no other."""
    known = json.loads(env.get(CLUSTER, "{}"))
    return {**env, CLUSTER: json.dumps({**known, WORKER: known.get(WORKER, [])[:1]})}
