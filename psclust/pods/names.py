"""Names, addresses and ports of pods. A JobSet and plain Jobs give them the same ones: pod I of a
job is NAME-JOB-0-I, and the headless service NAME makes NAME-JOB-0-I.NAME its host name."""

from __future__ import annotations

from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Job
from psclust.spec.port_range import parse_port_range

# Every pod has an address of its own, so all tasks of a job have the same port.
SERVER_PORT = 2222
# A pod's further ports, after that of its server.
_END_PORT, _FREE_PORT = 1, 2

INDEX = "JOB_COMPLETION_INDEX"
"""Kubernetes sets this variable in every pod of an indexed Job."""


def job_name(cluster: str, job: str) -> str:
    """The name of the Job that holds a job's pods, as a JobSet names the first replica of a
    replicated Job."""
    return f"{cluster}-{job}-0"


def host_name(cluster: str, task: Task) -> str:
    """The name at which the other pods of the namespace reach a task's pod."""
    return f"{job_name(cluster, task.job)}-{task.index}.{cluster}"


def port(file: ClusterFile, job: Job) -> int:
    """Of the task's server: the first port of `ports`, or 2222."""
    return parse_port_range(job.ports or file.ports)[0] or SERVER_PORT


def end_port(server_port: int) -> int:
    """Where the pod says that its program has done its work: see `psclust.pods.cluster_end`."""
    return server_port + _END_PORT


def free_port(server_port: int) -> int:
    """The value of `{free_port}`."""
    return server_port + _FREE_PORT
