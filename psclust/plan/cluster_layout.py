"""Jobs, hosts and addresses of a cluster: the part of planning that needs no port yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from psclust.plan.job_plan import JobPlan, plan_jobs, replication_of
from psclust.plan.port_request import PortRequest, extra_port
from psclust.spec.cluster import ClusterSpec, Host, Task, numeric
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_assignment import (
    ALL_NEEDED,
    Dispensable,
    assign,
    assign_present,
    closed_up,
    reassign,
)
from psclust.spec.job_keys import Job
from psclust.spec.jobs import WORKER
from psclust.spec.port_range import is_fixed, is_range
from psclust.spec.worker_range import least_workers, runs_freely, with_workers


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """`jobs` in the order in which TensorFlow lists them; `hosts`: of every task; `lost`: those
    that have no task any more; `addresses`: of hosts that others reach by another address than
    their name; `forwarders`: of hosts whose tasks have the same address of 127.0.0.1 everywhere."""

    jobs: tuple[JobPlan, ...]
    hosts: Mapping[Task, Host]
    replication: str | None
    lost: tuple[str, ...] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    forwarders: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def tasks(self) -> list[Task]:
        return [task for entry in self.jobs for task in entry.tasks]

    def job(self, name: str) -> JobPlan:
        return next(job for job in self.jobs if job.name == name)

    def port_requests(self, default: str) -> list[PortRequest]:
        """The ports to reserve before addresses are known, in task order."""
        requests = []
        for entry in self.jobs:
            wanted = entry.job.ports or default
            free = wanted if is_range(wanted) else "auto"
            if entry.in_cluster:
                requests += [self._task_port(entry.job, task, wanted) for task in entry.tasks]
            if entry.free_port:
                requests += [self._request(extra_port(task), task, free) for task in entry.tasks]
        return [request for request in requests if request.on not in self.lost]

    def fixed_ports(self, default: str) -> dict[Task, int]:
        """Of the tasks whose port the cluster file fixes."""
        return {
            entry.task: int(entry.wanted)
            for entry in self.port_requests(default)
            if is_fixed(entry.wanted)
        }

    def cluster_spec(self, ports: Mapping[Task, int]) -> ClusterSpec:
        """Addresses of all tasks in the cluster; a port not decided yet reads `auto`."""
        return ClusterSpec(
            {
                entry.name: tuple(
                    entry.job.addresses
                    or (
                        f"{self.advertised(task)}:{ports.get(task, self._no_port(task))}"
                        for task in entry.tasks
                    )
                )
                for entry in self.jobs
                if entry.in_cluster
            }
        )

    def advertised(self, task: Task) -> str:
        """The address at which others reach a task's host."""
        name = self.hosts[task].name
        return self.addresses.get(name, numeric(name))

    def _no_port(self, task: Task) -> str:
        """In place of a port: on a lost host one at which nobody answers, because TensorFlow takes
        nothing but a number."""
        return "1" if self.hosts[task].name in self.lost else "auto"

    def _task_port(self, job: Job, task: Task, wanted: str) -> PortRequest:
        if job.addresses:
            given, _, port = job.addresses[task.index].rpartition(":")
            return replace(self._request(task, task, port), host=given)
        own = str(int(wanted) + task.index) if is_fixed(wanted) else wanted
        return self._request(task, task, own)

    def _request(self, name: Task, task: Task, wanted: str) -> PortRequest:
        on = self.hosts[task].name
        return PortRequest(name, self.advertised(task), wanted, on, self.forwarders.get(on))


def lay_out(
    file: ClusterFile,
    lost: Sequence[str] = (),
    kept: Mapping[Task, str] = MappingProxyType({}),
    absent: Collection[Task] = (),
) -> ClusterLayout:
    """`lost`: hosts of the file that the run has lost, in that order. `kept`: where tasks of a live
    run are. `absent`: workers that it goes on without (jobs.worker.min).

    Workers without a place stay on a lost host where the others train on without them; else there
    are the fewer, numbered without a gap. Raises UsageError when `ends_with` names a job that runs
    no program, or when slots run out."""
    entries = plan_jobs(file)
    jobs = {entry.name: entry.job for entry in entries}
    optional = [entry.name for entry in entries if entry.role == "side"]
    spare = _dispensable(file, absent)
    if lost and not kept and spare.tasks:
        hosts = assign_present(jobs, file.hosts, lost, optional=optional, dispensable=spare)
    else:
        placed = assign(jobs, file.hosts, kept)
        hosts = reassign(placed, jobs, file.hosts, lost, optional=optional, dispensable=spare)
    missing = [task for task in spare.tasks if task in absent or hosts[task].name in lost]
    if missing and not runs_freely(file):
        hosts = closed_up(hosts, missing)
        entries = plan_jobs(with_workers(file, file.jobs[WORKER].count - len(missing)))
    return ClusterLayout(entries, hosts, replication_of(file), tuple(lost))


def _dispensable(file: ClusterFile, absent: Collection[Task]) -> Dispensable:
    """All workers but the first, which leads the training where there is no chief."""
    least = least_workers(file)
    if least is None:
        return ALL_NEEDED
    count = file.jobs[WORKER].count
    tasks = [Task(WORKER, index) for index in range(1, count)]
    return Dispensable(tasks, count - least, [task for task in absent if task in tasks])
