"""What a batch system does with a job as a whole: takes it, tells its state, ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from psclust.spec.cluster_file import ClusterFile, ClusterText
    from psclust.spec.found_hosts import FoundHosts
    from psclust.spec.host_keys import Slurm


@dataclass(frozen=True, slots=True)
class JobState:
    """word: the batch system's own, such as PENDING. waiting: in the queue, for `reason`. over: it
    will not run any more."""

    word: str
    reason: str | None = None
    waiting: bool = False
    over: bool = False

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


class BatchSystem(Protocol):
    """How a batch system is called, from one of its login nodes."""

    def nodes_of(self, file: ClusterText) -> FoundHosts:
        """The nodes that a job will have, by names of our own."""

    def array_tasks(self, slurm: Slurm) -> Sequence[str]:
        """The tasks of the array that is asked for; none if it is no array. Raises UsageError."""

    def script(self, file: ClusterFile, command: Sequence[str], folder: Path, output: Path) -> str:
        """The script of the job: `command` in `folder`. {array_task} in a path stands for the
        number of the task."""

    def check(self, script: str) -> str:
        """Ask the batch system whether it takes this script; returns its answer. Raises
        UsageError."""

    def submit(self, script: str) -> str:
        """The job's id. Raises UsageError."""

    def task_id(self, job: str, array_task: str) -> str:
        """The id of a task of an array."""

    def own_job(self, environ: Mapping[str, str]) -> str | None:
        """The id of the job that this process is in."""

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Of each job. Raises UsageError where the batch system does not answer."""

    def cancel(self, job: str) -> None:
        """Raises UsageError."""
