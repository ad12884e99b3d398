"""The cluster file of a run as it was when the run was started, flags included, in the run's
folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict

import yaml

from psclust.launch.up_request import UpRequest
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster_file import NOT_COPIED, ClusterFile


def cluster_text(
    file: ClusterFile,
    hosts: object,
    hosts_of_job: Callable[[Sequence[str]], Sequence[str]] = list,
) -> str:
    """The keys that the user has set, flags included, with absolute paths, and `hosts`.
    hosts_of_job: what `hosts` of a job becomes."""
    given = file.model_dump(
        mode="json",
        exclude_unset=True,
        exclude={"hosts", *NOT_COPIED},
    )
    for job in given.get("jobs", {}).values():
        if job.get("hosts"):
            job["hosts"] = list(hosts_of_job(job["hosts"]))
    return yaml.safe_dump(
        {"name": file.name, "hosts": hosts} | given,
        sort_keys=False,
        width=1000,
        default_flow_style=None,
    )


def record_cluster(request: UpRequest, folder: RunFolder) -> None:
    """For those who look at the run later; a job of a batch system was submitted with such a copy,
    and keeps it. A full disk costs the copy, nothing else."""
    hosts = [
        {key: value for key, value in asdict(host).items() if value is not None}
        for host in request.file.hosts
    ]
    if not folder.job_script.exists():
        with suppress(OSError):
            write_atomically(folder.cluster_file, cluster_text(request.file, hosts or "local"))
