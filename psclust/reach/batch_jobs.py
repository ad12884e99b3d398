"""Operations of a batch system on whole jobs: submit, query, cancel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from psclust.spec.cluster import Host, Task
    from psclust.spec.cluster_file import ClusterFile, ClusterText
    from psclust.spec.found_hosts import FoundHosts
    from psclust.spec.problems import Problem


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
    """How a batch system is called, from one of its login nodes.

    HOSTS: what `hosts:` says in the cluster file of a job."""

    HOSTS: str

    def check_file(self, file: ClusterFile) -> Iterator[Problem]:
        """Every reason why the file cannot become a job."""

    def hosts_of(self, file: ClusterText) -> FoundHosts:
        """The nodes that a job will have, by names of our own."""

    def groups_of(self, hosts: Sequence[str]) -> Sequence[str]:
        """What a job's `hosts` says in a cluster file: groups in place of nodes of `hosts_of`."""

    def brings_commands(self, file: ClusterFile) -> bool:
        """Whether the job may have commands that this machine lacks."""

    def array_tasks(self, file: ClusterFile) -> Sequence[str]:
        """The tasks of the array that is asked for; none if it is no array. Raises UsageError."""

    def script(
        self,
        file: ClusterFile,
        hosts: Mapping[Task, Host],
        command: Sequence[str],
        folder: Path,
        output: Path,
    ) -> str:
        """The script of the job: `command` in `folder`. hosts: that of every task. {array_task} in
        a path stands for the number of the task."""

    def check(self, script: str) -> str:
        """Ask the batch system whether it takes this script; returns its answer. Raises
        UsageError."""

    def submit(self, script: str) -> str:
        """The job's id. Raises UsageError."""

    def task_id(self, job: str, array_task: str) -> str:
        """The id of a task of an array."""

    def named(self, job: str) -> str:
        """The job with this id, in messages."""

    def array_task(self, environ: Mapping[str, str]) -> str | None:
        """The number of the task of an array that this process is in."""

    def restarts(self, environ: Mapping[str, str]) -> int:
        """How often the job that this process is in has been started again."""

    def own_job(self, environ: Mapping[str, str]) -> str | None:
        """The id of the job that this process is in."""

    def wanted_back(self, hosts: Sequence[str]) -> dict[str, str]:
        """Those of the hosts of this process's job that are to be given back, and why, as a clause.
        Raises UsageError where the batch system does not answer."""

    def states(self, jobs: Sequence[str]) -> dict[str, JobState]:
        """Of each job. Raises UsageError where the batch system does not answer."""

    def cancel(self, job: str) -> None:
        """Raises UsageError."""

    def start_again(
        self,
        file: ClusterFile,
        environ: Mapping[str, str],
        say: Callable[[str], None],
        before: Callable[[], None],
    ) -> None:
        """Have the job that this process runs in started again, if it may. `say` gets a line for
        the user; `before` is called first, as this process may then end at any time."""
