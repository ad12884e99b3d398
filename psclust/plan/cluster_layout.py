"""Who is in the cluster, what each job's tasks execute, and whose end ends the run: the part of planning that needs no port yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from psclust.errors import UsageError
from psclust.plan.port_request import PortRequest, extra_port
from psclust.plan.program_kind import Program, parse_program
from psclust.plan.task_plan import Role
from psclust.spec.address_checks import is_in_cluster
from psclust.spec.cluster import JOB_ORDER, LOCALHOST, ClusterSpec, Host, Task
from psclust.spec.cluster_file import ClusterFile, Job
from psclust.spec.host_assignment import assign
from psclust.spec.placeholders import FREE_PORT, placeholders, texts_of_job
from psclust.spec.port_range import is_fixed, is_range
from psclust.spec.spare_slots import move

CLIENT = "client"  # the job of the one client of an in-graph cluster
_CHIEFS = ("chief", "master", CLIENT)
_SIDE = ("evaluator", "tensorboard")


@dataclass(frozen=True, slots=True)
class JobLayout:
    """`program` None: the tasks are TensorFlow servers that psclust provides. free_port: whether each task gets an extra port."""

    name: str
    job: Job
    in_cluster: bool
    program: Program | None
    role: Role
    decides: bool
    free_port: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Jobs in the order in which TensorFlow lists them, and the host of every task. addresses: where others reach a host, by its name; one
    that is not there is reached by its name."""

    jobs: tuple[JobLayout, ...]
    hosts: Mapping[Task, Host]
    program: Program
    replication: str | None
    addresses: Mapping[str, str] = field(default_factory=dict)

    def job(self, name: str) -> JobLayout:
        return next(job for job in self.jobs if job.name == name)

    def port_requests(self, default: str) -> list[PortRequest]:
        """What must be reserved before addresses are known, in task order."""
        requests = []
        for entry in self.jobs:
            tasks = [Task(entry.name, index) for index in range(entry.job.count)]
            requests += [self._port_request(entry.job, task, default) for task in (tasks if entry.in_cluster else ())]
            extra = tasks if entry.free_port else ()
            wanted = entry.job.ports or default
            free = wanted if is_range(wanted) else "auto"
            requests += [PortRequest(extra_port(task), self.advertised(task), free, self.hosts[task].name) for task in extra]
        return requests

    def fixed_ports(self, default: str) -> dict[Task, int]:
        """Of the tasks whose port the cluster file fixes."""
        return {entry.task: int(entry.wanted) for entry in self.port_requests(default) if is_fixed(entry.wanted)}

    def cluster_spec(self, ports: Mapping[Task, int]) -> ClusterSpec:
        """Addresses of all tasks in the cluster; a port not decided yet reads `auto`."""
        jobs = {}
        for entry in self.jobs:
            if entry.in_cluster:
                tasks = [Task(entry.name, index) for index in range(entry.job.count)]
                jobs[entry.name] = tuple(entry.job.addresses or (f"{self.advertised(t)}:{ports.get(t, 'auto')}" for t in tasks))
        return ClusterSpec(jobs)

    def advertised(self, task: Task) -> str:
        """The address others reach a task's host at."""
        name = self.hosts[task].name
        return self.addresses.get(name, "127.0.0.1" if name == LOCALHOST.name else name)

    def _port_request(self, job: Job, task: Task, default: str) -> PortRequest:
        on = self.hosts[task].name
        if job.addresses:
            given, _, port = job.addresses[task.index].rpartition(":")
            return PortRequest(task, given, port, on)
        wanted = job.ports or default
        return PortRequest(task, self.advertised(task), str(int(wanted) + task.index) if is_fixed(wanted) else wanted, on)


def lay_out(file: ClusterFile, addresses: Mapping[str, str] | None = None, lost: Sequence[str] = ()) -> Layout:
    """Decide roles, membership and hosts; `lost` are hosts of the file that a run has lost, in that order. Raises UsageError when
    `ends_with` names a job that runs no program, or slots run out."""
    program = parse_program(file.program)
    jobs = {name: job for name, job in file.jobs.items() if job.count > 0 or job.addresses}
    jobs = {name: job.model_copy(update={"count": len(job.addresses)}) if job.addresses else job for name, job in jobs.items()}
    replication = file.replication or ("between-graph" if program.kind == "psclust" else None)
    if replication == "in-graph" and program.kind == "psclust":
        jobs[CLIENT] = Job(count=1)
    if replication == "coordinator" and program.kind != "none" and not ({"chief", "master", CLIENT} & set(jobs)):
        jobs["chief"] = Job(count=1)
    ordered = sorted(jobs, key=lambda name: JOB_ORDER.index(name) if name in JOB_ORDER else len(JOB_ORDER))
    programs = {name: _program_of(name, jobs[name], program, replication) for name in ordered}
    deciders = _deciders(file, programs)
    entries = tuple(
        JobLayout(
            name=name,
            job=jobs[name],
            in_cluster=is_in_cluster(name, jobs[name]),
            program=programs[name],
            role=_role(name, programs[name]),
            decides=name in deciders,
            free_port=any(found.name == FREE_PORT for text in texts_of_job(file, jobs[name]) for found in placeholders(text)),
        )
        for name in ordered
    )
    hosts = assign({name: jobs[name] for name in ordered}, file.hosts)
    hosts = move(hosts, jobs, file.hosts, lost, optional=[entry.name for entry in entries if entry.role == "side"])
    return Layout(entries, hosts, program, replication, addresses or {})


def _program_of(name: str, job: Job, program: Program, replication: str | None) -> Program | None:
    if job.run == "server" or (job.run is None and program.kind == "none"):
        return None
    if isinstance(job.run, list):
        return parse_program(job.run)
    if job.run == "program":
        return program
    servers = {"in-graph": ("ps", "worker"), "coordinator": ("ps", "worker")}.get(replication or "", ())
    if name in servers or (name == "ps" and program.kind == "psclust"):
        return None
    return program


def _role(name: str, program: Program | None) -> Role:
    if program is None or name == "ps":
        return "server"
    return "side" if name in _SIDE else "program"


def _deciders(file: ClusterFile, programs: Mapping[str, Program | None]) -> Sequence[str]:
    working = [name for name, program in programs.items() if _role(name, program) == "program"]
    if isinstance(file.ends_with, list):
        return file.ends_with
    chiefs = [name for name in working if name in _CHIEFS]
    workers = [name for name in working if name == "worker"]
    if file.ends_with == "never":
        return []
    if file.ends_with == "all":
        return working
    if file.ends_with in ("chief", "workers"):
        found = chiefs if file.ends_with == "chief" else workers
        if not found:
            raise UsageError(f"ends_with: no {file.ends_with.rstrip('s')} task runs a program here; name the jobs that decide, as a list.")
        return found
    return chiefs or workers or working
