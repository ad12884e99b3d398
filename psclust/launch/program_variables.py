"""The variables of a psclust program and their placement, for `psclust plan`. The launcher never
imports TensorFlow: a process of its own describes the program, with the interpreter, folder and
environment of its first task."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace

from psclust.errors import UsageError
from psclust.launch.up_request import UpRequest
from psclust.placement.cuts import cuts
from psclust.placement.description import DESCRIBED_PS, Description
from psclust.placement.partition import partition
from psclust.placement.placement_settings import NONE, PlacementSettings
from psclust.placement.streamed import unstreamed
from psclust.placement.table import IN_STEP, WAYS, Table, tabulate
from psclust.plan.cluster_layout import ClusterLayout
from psclust.plan.task_environment import inherited, is_foreign, placement_settings
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.rundir.log_tail import last_line
from psclust.spec.cluster import Task
from psclust.spec.jobs import BETWEEN_GRAPH, PS, replica_jobs

_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class PlannedPlacement:
    """way: such as `between-graph sync`; replicas: how many train. one_way: way -> what keeps
    variables from coming back while gradients leave. whole: why `auto` partitions no variable."""

    table: Table
    policy: str
    ps: int
    replicas: int
    way: str
    wire_dtype: str
    one_way: Mapping[str, str]
    whole: str | None


def planned_placement(request: UpRequest, plan: Plan) -> PlannedPlacement | None:
    """None if the program is no psclust program or has no ps. Raises UsageError, in one sentence,
    if its variables cannot be found out."""
    task = _program_task(request.layout, plan)
    counts = {entry.name: entry.job.count for entry in request.layout.jobs}
    if task is None or PS not in counts:
        return None
    replicas = sum(counts.get(job, 0) for job in replica_jobs(request.layout.replication))
    policy = placement_settings(request.file.placement)
    found = _ask(task, request, counts[PS], policy)
    if found.whole:
        policy = replace(policy, max_shard_bytes=NONE)
    pieces = partition(found.variables, cuts(found.variables, counts[PS], policy))
    one_way = _one_way(found, request, unstreamed(pieces, counts[PS]))
    table = tabulate(
        found.variables,
        counts[PS],
        policy,
        workers=replicas,
        wire_dtype=found.wire_dtype,
        one_way=one_way,
    )
    way = f"{request.layout.replication or BETWEEN_GRAPH} {request.file.update}"
    return PlannedPlacement(
        table, policy.render(), counts[PS], replicas, way, found.wire_dtype, one_way, found.whole
    )


def _one_way(found: Description, request: UpRequest, in_step: str | None) -> Mapping[str, str]:
    every = found.one_way or ("max_staleness" if request.file.max_staleness is not None else None)
    if every:
        return dict.fromkeys(WAYS, every)
    in_step = found.in_step or ("backup_workers" if request.file.backup_workers else in_step)
    return {IN_STEP: in_step} if in_step else {}


def _program_task(layout: ClusterLayout, plan: Plan) -> TaskPlan | None:
    for entry in layout.jobs:
        if entry.program is not None and entry.program.is_psclust and entry.role == "program":
            return plan[Task(entry.name, 0)]
    return None


def _ask(task: TaskPlan, request: UpRequest, ps: int, placement: PlacementSettings) -> Description:
    python, dash_m, module, *words = task.argv
    environ = inherited(request.launcher.environ)
    # A description needs neither the shim nor GPUs.
    added = {
        name: value
        for name, value in task.env.items()
        if not is_foreign(name) and name != "LD_PRELOAD"
    }
    asked = {DESCRIBED_PS: str(ps), "PSCLUST_PLACEMENT": placement.render()}
    try:
        done = subprocess.run(
            [python, dash_m, module, "--describe", *words],
            cwd=task.cwd,
            env={**environ, **added, **asked, "CUDA_VISIBLE_DEVICES": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_DEADLINE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{words[0]}: its variables are not known: "
            f"building the model took more than {_DEADLINE_S:g} s."
        ) from None
    except OSError as error:
        raise UsageError(
            f"{words[0]}: its variables are not known: {error.filename}: "
            f"{os.strerror(error.errno or 0)}."
        ) from None
    found = Description.find(done.stdout)
    if done.returncode != 0 or found is None:
        reason = last_line(done.stderr) or f"exit code {done.returncode}"
        raise UsageError(
            reason
            if reason.startswith(f"{words[0]}:")
            else f"{words[0]}: its variables are not known: {reason}"
        )
    return found
