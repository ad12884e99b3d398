"""A cluster file becomes a batch job, whose run has its folder from then on."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from psclust import __version__
from psclust.errors import PsclustError, StartError, UsageError
from psclust.launch.cluster_copy import cluster_text
from psclust.launch.job_runs import refuse_if_elsewhere
from psclust.launch.preflight import refuse_what_cannot_start
from psclust.launch.up_request import UpRequest
from psclust.reach.ways import batch_system
from psclust.rundir.batch_job import BatchJob
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.origin import Origin
from psclust.rundir.status import QUEUED, RunStatus, TaskStatus
from psclust.rundir.status_file import write_status
from psclust.spec.key_types import ARRAY_TASK

# Given the task of an array (None: as the file has it), the request.
ReadRequest = Callable[[str | None], UpRequest]


@dataclass(frozen=True, slots=True)
class Submission:
    """requests: one for each task of an array, else one. array_tasks: theirs, empty if it is no
    array. run_id: of all their runs."""

    requests: Sequence[UpRequest]
    array_tasks: Sequence[str]
    run_id: str
    script: str
    copy: str


def prepare(read: ReadRequest) -> Submission:
    """Everything that needs no answer of the batch system's. Raises UsageError."""
    system = batch_system()
    # As it is in the job: with {array_task} in place.
    template = read(ARRAY_TASK)
    tasks = system.array_tasks(template.file)
    if tasks and ARRAY_TASK not in template.file.name:
        name = template.file.name
        raise UsageError(
            f"name: {name}: the {len(tasks)} runs of an array need names of their own; write name: "
            f"{name}-{ARRAY_TASK}."
        )
    requests = [read(task) for task in tasks] or [read(None)]
    for request in requests:
        refuse_what_cannot_start(request, job_of=system)
    run_id = max(request.cluster.next_id() for request in requests)
    folder = RunFolder(template.cluster.path / run_id)
    state = str(template.cluster.path.parent)
    command = [
        sys.executable,
        "-m",
        "psclust",
        "up",
        "--run-dir",
        state,
        "-f",
        str(folder.cluster_file),
    ]
    script = system.script(
        template.file,
        template.layout.hosts,
        command,
        Path(template.launcher.cwd),
        folder.job_output,
    )
    copy = cluster_text(template.file, system.HOSTS, system.groups_of)
    return Submission(requests, tasks, run_id, script, copy)


def check(submission: Submission) -> str:
    """The batch system's answer. Raises UsageError where a run of that name is queued or live, or
    the job is refused."""
    for request in submission.requests:
        refuse_if_elsewhere(request.cluster)
        if request.cluster.is_live():
            name = request.cluster.name
            raise UsageError(
                f"{name} is up on this machine: end it (psclust down {name}), "
                "or give this one another --name."
            )
    return batch_system().check(submission.script)


def submit(submission: Submission) -> str:
    """The job's name, for messages; its run is queued. Raises UsageError, or StartError where a
    folder cannot be made."""
    folders: list[RunFolder] = []
    try:
        for request in submission.requests:
            folders.append(queued_run(request, request.origin, run_id=submission.run_id))
            folders[-1].job_script.write_text(submission.script, encoding="utf-8")
            folders[-1].cluster_file.write_text(submission.copy, encoding="utf-8")
        job = batch_system().submit(submission.script)
    except OSError as error:
        _remove(folders)
        raise StartError(
            f"{error.filename}: {error.strerror}; runs are kept there. "
            "Choose another place with --run-dir."
        ) from None
    except PsclustError:
        _remove(folders)
        raise
    ids = [batch_system().task_id(job, task) for task in submission.array_tasks] or [job]
    for folder, own in zip(folders, ids, strict=True):
        BatchJob(own).write_first(folder.job)
    return batch_system().named(job)


def queued_run(
    request: UpRequest, origin: Origin, *, run_id: str | None = None, job: str | None = None
) -> RunFolder:
    """The folder of a run that waits for its job. Raises OSError, StartError."""
    cluster, now = request.cluster, time.time()
    folder = _locked(cluster, run_id, job)
    origin.write(folder)
    tasks = tuple(
        TaskStatus(str(task), entry.role, QUEUED, "-", None, None, 0, 0, None, now, None)
        for entry in request.layout.jobs
        for task in entry.tasks
    )
    write_status(
        folder,
        RunStatus(
            cluster.name, folder.id, str(folder.path), QUEUED, 0, now, tasks, psclust=__version__
        ),
    )
    return folder


def queue_run(request: UpRequest, last: RunFolder) -> None:
    """Before the job of the run in `last`, which has ended, starts again: the folder of its next
    run."""
    job = BatchJob.read(last.job)
    if job is not None:
        with suppress(OSError):  # a full disk, say: the job then makes the folder itself
            queued_run(request, Origin.read(last) or request.origin, job=job.id)


def _locked(cluster: ClusterFolder, run_id: str | None, job: str | None) -> RunFolder:
    lock = cluster.lock()
    if lock is None:
        raise StartError(
            f"{cluster.name}: another run is just beginning, or ending; see `psclust ps`."
        )
    try:
        return cluster.new_run(run_id=run_id, job=BatchJob(job) if job is not None else None)
    finally:
        os.close(lock)


def _remove(folders: Sequence[RunFolder]) -> None:
    for folder in folders:
        cluster = ClusterFolder(folder.path.parent)
        shutil.rmtree(folder.path, ignore_errors=True)
        earlier = cluster.runs()
        if earlier:
            cluster.make_current(earlier[-1])
        else:
            shutil.rmtree(cluster.path, ignore_errors=True)
