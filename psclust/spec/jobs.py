"""The jobs whose names mean something, and every rule that goes by a job's name. Both sides use it:
the launcher to lay out a cluster, a task to find its part in it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from psclust.spec.program_command import ProgramKind

PS, WORKER, CHIEF, EVALUATOR = "ps", "worker", "chief", "evaluator"
CLIENT = "client"  # of an in-graph program; psclust adds it
_CHIEFS = (CHIEF, "master", CLIENT)  # master: the chief's name in older Estimator programs
_OBSERVERS = (EVALUATOR, "tensorboard")
_SPEC_ORDER = (CHIEF, "master", PS, WORKER)

IN_GRAPH, BETWEEN_GRAPH, COORDINATOR = "in-graph", "between-graph", "coordinator"

# What follows the death of a ps, and of another task of the cluster.
PsFailure = Literal["restart-ps", "restart-all", "fail"]
WorkerFailure = Literal["restart-worker", "restart-all", "fail"]
RESTART_ALL, FAIL = "restart-all", "fail"


def is_chief(job: str) -> bool:
    """Whether its task leads the training. Unless `ends_with` says otherwise, the run ends when it
    does."""
    return job in _CHIEFS


def is_observer(job: str) -> bool:
    """Whether its tasks only read what training writes: no task dials them, and their end never
    ends the run."""
    return job in _OBSERVERS


def is_in_cluster(job: str, chosen: bool | None) -> bool:
    """Whether the cluster spec lists its tasks; `chosen` is the job's key `in_cluster`."""
    return not is_observer(job) if chosen is None else chosen


def spec_position(job: str) -> int:
    """Its position in a cluster spec, as TensorFlow programs list jobs; jobs of other names follow
    in the order of the file."""
    return _SPEC_ORDER.index(job) if job in _SPEC_ORDER else len(_SPEC_ORDER)


def replica_jobs(replication: str | None) -> tuple[str, ...]:
    """The jobs whose tasks each hold a replica of the model, in shard order. In-graph these are
    towers on the workers."""
    return (WORKER,) if replication == IN_GRAPH else (CHIEF, WORKER)


def server_jobs(replication: str | None) -> tuple[str, ...]:
    """The jobs of which psclust provides bare servers to a psclust program, or to a coordinator
    script."""
    return (PS, WORKER) if replication in (IN_GRAPH, COORDINATOR) else (PS,)


def added_job(
    present: Collection[str], replication: str | None, program: ProgramKind
) -> str | None:
    """The job of one task that psclust adds: the client of an in-graph program, or the chief of a
    coordinator script that has none."""
    if replication == IN_GRAPH and program is ProgramKind.PSCLUST:
        return CLIENT
    if (
        replication == COORDINATOR
        and program is not ProgramKind.NONE
        and not any(map(is_chief, present))
    ):
        return CHIEF
    return None
