"""Runs of batch jobs in a folder that machines share: whether one is live depends on its record,
not on a lock."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from psclust.rundir.batch_job import BatchJob
from psclust.rundir.folder import KEPT_RUNS, ClusterFolder, RunFolder
from psclust.rundir.old_runs import old_runs
from psclust.rundir.status import QUEUED, RunStatus
from psclust.rundir.status_file import is_queued, read_status, record_lost_job, write_status


@pytest.fixture
def cluster(tmp_path: Path) -> ClusterFolder:
    return ClusterFolder(tmp_path / "runs" / "c")


def run_of(cluster: ClusterFolder, job: BatchJob | None, phase: str) -> RunFolder:
    lock = cluster.lock()
    assert lock is not None
    folder = cluster.new_run(job=job)
    os.close(lock)
    write_status(folder, RunStatus("c", folder.id, str(folder.path), phase, 0, 1.0))
    return folder


def test_a_run_without_a_lock_is_live_only_in_a_job_elsewhere(cluster: ClusterFolder) -> None:
    for job, live in (
        (None, False),
        (BatchJob("7", "n1"), True),
        (BatchJob("7"), True),
        (BatchJob("7", socket.gethostname()), False),
    ):
        folder = run_of(cluster, job, "live")
        assert cluster.is_live() is cluster.is_elsewhere() is live
        assert read_status(folder).ended is not live


def test_a_recorded_end_ends_it(cluster: ClusterFolder) -> None:
    folder = run_of(cluster, BatchJob("7"), QUEUED)
    assert is_queued(folder)
    record_lost_job(folder, exit_code=1, text="gone")
    assert not is_queued(folder)
    assert not cluster.is_live()
    assert read_status(folder).text == "gone"
    # What the supervisor itself wrote last prevails, though it may be seen here later.
    write_status(
        folder, replace(read_status(folder), phase="ended", ok=True, exit_code=0, text="done")
    )
    assert read_status(folder).ok
    record_lost_job(folder, exit_code=1, text="gone")
    assert read_status(folder).ok


def test_the_folders_of_a_live_job_stay(cluster: ClusterFolder) -> None:
    """Its script and its output are in the first."""
    first = run_of(cluster, BatchJob("7", "n1"), "ended")
    for _ in range(KEPT_RUNS):
        run_of(cluster, BatchJob("7", "n1"), "ended")
    run_of(cluster, BatchJob("7"), QUEUED)
    assert first in cluster.runs()
    assert old_runs(cluster.path.parent) == []
    run_of(cluster, BatchJob("8"), QUEUED)
    assert first not in cluster.runs()
