"""Runs of batch jobs, seen from any machine that shares their folders: what the batch system says
of a job is laid over what is on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from psclust.errors import StartError, UsageError
from psclust.reach.batch_jobs import JobState
from psclust.reach.ways import batch_system
from psclust.rundir.batch_job import BatchJob
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.log_tail import tail_of
from psclust.rundir.status import QUEUED, RunStatus
from psclust.rundir.status_file import is_queued, read_status, record_lost_job

if TYPE_CHECKING:
    from psclust.launch.up_request import UpRequest

_ASK_S = 2.0  # between questions to the batch system
_ENDING_S = 120.0  # for a cancelled job to be gone
_POLL_S = 0.2
CANCELLED_CODE = 143


class JobRuns:
    """Asks the batch system at most every two seconds. `warn` gets a line where it does not answer:
    what is on disk counts then."""

    def __init__(self, warn: Callable[[str], None]) -> None:
        self._warn = warn
        self._states: dict[str, JobState] = {}
        self._asked: dict[str, float] = {}
        self._warned = False

    def settle(self, clusters: Iterable[ClusterFolder]) -> None:
        """Record the end of runs whose job is gone."""
        elsewhere = [
            folder
            for cluster in clusters
            if _is_elsewhere(cluster) and (folder := cluster.current())
        ]
        self._ask([job.id for folder in elsewhere if (job := BatchJob.read(folder.job))])
        for folder in elsewhere:
            self._settle(folder)

    def status(self, folder: RunFolder) -> RunStatus:
        """Raises NoRunError, see `read_status`."""
        cluster = ClusterFolder(folder.path.parent)
        current = cluster.current()
        if current is None or current.id != folder.id or not cluster.is_elsewhere():
            return read_status(folder)
        self.settle([cluster])
        # Its clock is another machine's.
        status = replace(read_status(folder), clock=None)
        job = BatchJob.read(folder.job)
        state = self._states.get(job.id) if job else None
        if job is None or state is None or status.ended:
            return status
        if state.waiting:
            # Of a job that has been put back into the queue, nothing runs any more.
            tasks = tuple(replace(task, phase=QUEUED, pid=None) for task in status.tasks)
            return replace(
                status,
                phase=QUEUED,
                tasks=tasks,
                notes=(*status.notes, f"waiting for {_named(job)} ({state})"),
            )
        return (
            replace(status, notes=(*status.notes, f"{_named(job)} is {state}"))
            if status.phase == QUEUED
            else status
        )

    def cancel(self, cluster: ClusterFolder) -> str:
        """End the job of a run elsewhere, and wait until it is gone; returns its name for messages.
        Raises UsageError, StartError."""
        folder = cluster.current()
        job = BatchJob.read(folder.job) if folder else None
        assert folder is not None
        assert job is not None
        batch_system().cancel(job.id)
        end = time.monotonic() + _ENDING_S
        while not batch_system().states([job.id])[job.id].over:
            if time.monotonic() > end:
                raise StartError(
                    f"{cluster.name}: {_named(job)} is still there {_ENDING_S:g} s after it was "
                    "cancelled."
                )
            time.sleep(_POLL_S)
        record_lost_job(
            folder, exit_code=CANCELLED_CODE, text=f"psclust down cancelled {_named(job)}"
        )
        return _named(job)

    def _ask(self, jobs: list[str]) -> None:
        due = [
            job for job in jobs if time.monotonic() - self._asked.get(job, float("-inf")) > _ASK_S
        ]
        if not due:
            return
        try:
            self._states |= batch_system().states(due)
        except UsageError as error:
            if not self._warned:
                self._warn(f"{error} What is shown of its jobs may be out of date.")
            self._warned = True
        self._asked |= dict.fromkeys(due, time.monotonic())

    def _settle(self, folder: RunFolder) -> None:
        job = BatchJob.read(folder.job)
        state = self._states.get(job.id) if job else None
        if job is None or state is None or not state.over:
            return
        how = "before psclust started" if is_queued(folder) else "without a word of the run's end"
        last = "".join(tail_of(folder.job_output, 1))
        where = f": {last}; all of its output: {folder.job_output}" if last else ""
        with suppress(OSError):  # another user's
            record_lost_job(
                folder, exit_code=1, text=f"{_named(job)} is gone ({state}), {how}{where}"
            )


def job_folder(request: UpRequest, job: str | None) -> RunFolder | None:
    """The folder of the queued run that `job` is to take over, if there is one. Raises UsageError
    where the name belongs to another job."""
    cluster = request.cluster
    folder = cluster.current()
    if folder is None:
        return None
    theirs = BatchJob.read(folder.job)
    # The job may start before its id is recorded.
    if job is not None and is_queued(folder) and (theirs is None or theirs.id == job):
        return folder
    if theirs is not None and theirs.id != job:
        refuse_if_elsewhere(cluster)
    return None


def refuse_if_elsewhere(cluster: ClusterFolder) -> None:
    """Raises UsageError where a run of that name is queued or lives on another machine."""
    runs = JobRuns(lambda line: None)
    runs.settle([cluster])
    folder = cluster.current()
    if folder is None or not cluster.is_elsewhere():
        return
    job = BatchJob.read(folder.job)
    phase = runs.status(folder).phase
    what = "is queued" if phase == QUEUED else "runs"
    raise UsageError(
        f"{cluster.name} {what} as {_named(job or BatchJob('?'))}: follow it (psclust logs -f "
        f"{cluster.name}), end it (psclust down {cluster.name}), or give this one another --name."
    )


def _named(job: BatchJob) -> str:
    return batch_system().named(job.id)


def _is_elsewhere(cluster: ClusterFolder) -> bool:
    with suppress(PermissionError):
        return cluster.is_elsewhere()
    return False
