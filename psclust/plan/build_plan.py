"""Plans a cluster: every argument, variable and folder of every task. Pure: ports, environments and
facts about scripts are arguments, so a dry run is the first half of a real one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from psclust.plan import elastic, task_environment
from psclust.plan.admitted import admitted
from psclust.plan.cluster_layout import ClusterLayout
from psclust.plan.job_plan import JobPlan
from psclust.plan.placeholder_values import PlaceholderValues, fill, placeholder_values
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.plan_notes import hidden_notes, host_notes
from psclust.plan.port_request import extra_port
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.script_flags import RoleBy, decide
from psclust.plan.summary_folder import chief_of, summary_folder
from psclust.plan.task_environment import HostEnvironment
from psclust.plan.task_plan import Deadlines, Plan, RestartPolicy, TaskPlan, When
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import ClusterSpec, Task, render_tf_config
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Job
from psclust.spec.jobs import BETWEEN_GRAPH, IN_GRAPH, PS, WORKER
from psclust.spec.placeholders import placeholders
from psclust.spec.port_range import is_range
from psclust.spec.preload_limits import Preload, is_read
from psclust.spec.worker_range import least_workers


@dataclass(frozen=True, slots=True)
class Run:
    """Id and folder of the run that a plan is for."""

    id: str
    folder: str

    @classmethod
    def of(cls, folder: RunFolder) -> Run:
        return cls(folder.id, str(folder.path))


@dataclass(frozen=True, slots=True)
class _Request:
    inputs: PlanInputs
    host: HostEnvironment
    run: Run
    layout: ClusterLayout
    cluster: ClusterSpec
    role_by: Mapping[str, RoleBy]
    ports: Mapping[Task, int]

    def at(self, task: Task) -> _Request:
        """The request with the environment and the run's folder of the task's host."""
        host = self.inputs.remote_hosts.get(self.layout.hosts[task].name)
        return (
            replace(self, host=host.environment, run=replace(self.run, folder=host.folder))
            if host
            else self
        )


def build_plan(
    inputs: PlanInputs, layout: ClusterLayout, run: Run, ports: Mapping[Task, int]
) -> Plan:
    """`layout`: of `inputs`, with the addresses of hosts. `ports`: the reserved port of each task;
    a missing one reads `auto`."""
    request = _request(inputs, layout, run, ports)
    file = inputs.file
    tasks = _with_summaries(
        request,
        [
            _task_plan(request.at(task), entry, task)
            for entry in request.layout.jobs
            for task in entry.tasks
        ],
    )
    return Plan(
        name=file.name,
        cluster=request.cluster,
        tasks=tuple(_with_needs(tasks)),
        deadlines=_deadlines(file),
        notes=(
            *([file.suited] if file.suited else ()),
            *dict.fromkeys(each.note for each in request.role_by.values() if each.note),
            *hidden_notes(inputs.scripts, preload=file.preload),
            *host_notes(
                inputs.launcher,
                {name: host.environment for name, host in inputs.remote_hosts.items()},
            ),
        ),
        lost=layout.lost,
        on_ps_failure=file.on_ps_failure,
        on_worker_failure=file.on_worker_failure,
        min_workers=least_workers(file),
        replace_slow=file.replace_slow,
    )


def first_tasks(inputs: PlanInputs, layout: ClusterLayout, run: Run) -> dict[str, TaskPlan]:
    """Job -> its first task, as far as it is known before ports and other hosts are: what is
    checked, and loaded, before there is a plan."""
    request = _request(inputs, layout, run, layout.fixed_ports(inputs.file.ports))
    return {entry.name: _task_plan(request, entry, entry.tasks[0]) for entry in layout.jobs}


def _request(
    inputs: PlanInputs, layout: ClusterLayout, run: Run, ports: Mapping[Task, int]
) -> _Request:
    role_by = {
        entry.name: decide(inputs.file, entry, inputs.scripts.get(entry.name), layout.jobs)
        for entry in layout.jobs
    }
    return _Request(
        inputs, inputs.launcher, run, layout, layout.cluster_spec(ports), role_by, ports
    )


def _deadlines(file: ClusterFile) -> Deadlines:
    keys = file.deadlines
    return Deadlines(
        keys.start,
        keys.stop,
        keys.finish,
        keys.run,
        keys.lease,
        keys.detached,
        keys.run_exit_code,
        keys.progress,
        file.lost_s,
    )


def _task_plan(request: _Request, entry: JobPlan, task: Task) -> TaskPlan:
    file, here, job = request.inputs.file, request.host, entry.job
    # A remote host has resolved `python:` itself.
    own = here.python if request.inputs.remote_hosts else file.python or here.python
    python = job.python or own
    free_port = request.ports.get(extra_port(task)) if entry.free_port else None
    values = placeholder_values(
        request.cluster,
        task,
        name=file.name,
        run_dir=request.run.folder,
        free_port=free_port,
        array_task=file.array_task,
    )
    argv, preload = _command(request, entry, task, python)
    return TaskPlan(
        task=task,
        host=request.layout.hosts[task].name,
        address=request.cluster.address(task),
        argv=tuple(fill(word, values, where=f"jobs.{task.job}: args") for word in argv)
        if entry.program
        else argv,
        env=_environment(request, entry, task, values),
        cwd=_folder(request, job),
        preload=preload if preload and not _differs(request, entry, task, preload) else None,
        role=entry.role,
        serves=entry.program is None,
        needs=(),
        decides=entry.decides,
        ok_exit_codes=tuple(job.ok_exit_codes),
        restart=_restart(request, entry),
        recovery_wait_s=file.recovery_wait or None,
        free_port=free_port,
        elsewhere=not request.role_by[task.job].learns_addresses,
        failure_hint=request.role_by[task.job].hint,
        grows=elastic.grows(file, entry),
        leaves=elastic.leaves(file, entry),
    )


def _folder(request: _Request, job: Job) -> str:
    """The working folder; on a remote host a relative one is below the folder of the program."""
    chosen = job.cwd or request.inputs.file.cwd
    if chosen is None or not request.inputs.remote_hosts:
        return chosen or request.host.cwd
    return os.path.join(request.host.cwd, chosen)


def _command(
    request: _Request, entry: JobPlan, task: Task, python: str
) -> tuple[tuple[str, ...], Preload | None]:
    file, job, program = request.inputs.file, entry.job, entry.program
    if program is None:
        return _server_command(request, entry, task, python)
    args = [
        *file.arguments(job),
        *request.role_by[entry.name].flags,
        *job.task_args.get(task.index, []),
    ]
    facts = request.inputs.scripts.get(entry.name, ScriptFacts())
    preload: Preload | None = None
    if file.preload and facts.hides is None and program.is_forkable(args):
        preload = (
            "keras" if facts.names_keras else "psclust" if program.is_psclust else "tensorflow"
        )
    return (*program.argv(python), *args), preload


def _differs(request: _Request, entry: JobPlan, task: Task, load: Preload) -> bool:
    """Whether the task has its own value for a variable that fork servers read; then it is
    executed, because no other task could share its fork server."""
    shared = [*request.inputs.file.env.items(), *entry.job.env.items()]
    own = [
        *entry.job.task_env.get(task.index, {}),
        *(name for name, value in shared if any(placeholders(str(value)))),
    ]
    return any(is_read(name, load) for name in own)


def _server_command(
    request: _Request, entry: JobPlan, task: Task, python: str
) -> tuple[tuple[str, ...], Preload | None]:
    module = (
        "psclust.runtime.python_server"
        if entry.job.server == "python"
        else "psclust.runtime.bare_server"
    )
    cluster = elastic.known_cluster(request.inputs.file, entry, request.cluster, task)
    preload: Preload = "tensorflow" if entry.job.server == "python" else "library"
    flags = ["--cluster", cluster, "--job", task.job, "--task", str(task.index)]
    if entry.job.device_count is not None:
        flags += ["--device-count", str(entry.job.device_count)]
    return (python, "-m", module, *flags), preload if request.inputs.file.preload else None


def _environment(
    request: _Request, entry: JobPlan, task: Task, values: PlaceholderValues
) -> dict[str, str]:
    file, job, program = request.inputs.file, entry.job, entry.program
    env = task_environment.task_environment(
        request.host,
        elastic.known_cluster(file, entry, request.cluster, task),
        task,
        run_id=request.run.id,
        run_dir=request.run.folder,
        address=request.cluster.address(task),
        admit=_admitted(request, task),
        gpus=_gpus(request, entry, task),
        # Those of this machine say nothing about another host.
        allowed_gpus=request.host.environ.get("CUDA_VISIBLE_DEVICES", "")
        if request.inputs.remote_hosts or not file.hosts
        else "",
    )
    hosts = request.layout.hosts
    beside = sum(other.job == task.job and hosts[other] == hosts[task] for other in hosts)
    env |= task_environment.share_of_host(request.host, beside)
    if request.inputs.remote_hosts:
        env |= task_environment.peer_timeout(file.deadlines.lease)
    ports = job.ports or file.ports
    # Between-graph workers connect and do not listen.
    if is_range(ports) and (
        task.job == PS or (task.job == WORKER and request.layout.replication == IN_GRAPH)
    ):
        env["PSCLUST_PORTS"] = ports
    if program is not None and program.is_psclust:
        env["PSCLUST_REPLICATION"] = request.layout.replication or BETWEEN_GRAPH
        env["PSCLUST_UPDATE"] = file.update
        if file.is_elastic:
            env[elastic.INPUT] = file.input
        if job.device_count is not None:
            env["PSCLUST_DEVICE_COUNT"] = str(job.device_count)
        env["PSCLUST_PLACEMENT"] = task_environment.placement_settings(file.placement).render()
        env |= task_environment.pace_environment(file)
        if request.inputs.job_restarts:
            env["PSCLUST_JOB_ATTEMPT"] = str(request.inputs.job_restarts + 1)
    if request.role_by[entry.name].tf_config:
        env["TF_CONFIG"] = render_tf_config(request.cluster, task)
    for mapping in (file.env, job.env, job.task_env.get(task.index, {})):
        env |= {
            name: fill(str(value), values, where=f"jobs.{task.job}: env.{name}")
            for name, value in mapping.items()
        }
    if request.host.shim is not None:
        env["LD_PRELOAD"] = task_environment.with_shim(request.host.shim, env["LD_PRELOAD"])
    return env


def _admitted(request: _Request, task: Task) -> tuple[str, ...]:
    file, layout = request.inputs.file, request.layout
    if any(host.forwarder for host in request.inputs.remote_hosts.values()):
        # Forwarders connect from 127.0.0.1, so that hosts may join a run while it is live.
        return tuple(file.admit)
    addresses = {
        name: (host.address, *host.environment.addresses)
        for name, host in request.inputs.remote_hosts.items()
        # A change of these would restart servers that live on.
        if name not in layout.lost or file.is_elastic
    } or {host.name: (host.name,) for host in file.hosts}
    # Somebody drives bare servers from elsewhere, most likely from where they were started.
    driven = addresses and not any(entry.program for entry in layout.jobs)
    others = [*file.admit, *(request.inputs.launcher.addresses if driven else ())]
    return admitted(layout.hosts[task].name, addresses, others)


def _gpus(request: _Request, entry: JobPlan, task: Task) -> range | None:
    """ps tasks see none; the others share the GPUs of their host in order."""
    if entry.job.gpus is None:
        return range(0) if task.job == PS else None
    first = 0
    for other in request.layout.jobs:
        for each in other.tasks:
            if each == task:
                return range(first, first + entry.job.gpus)
            if request.layout.hosts[each] == request.layout.hosts[task]:
                first += other.job.gpus or 0
    return None


def _restart(request: _Request, entry: JobPlan) -> RestartPolicy:
    chosen = entry.job.restart or request.inputs.file.restart
    default: When = "failure" if entry.program is None or entry.role == "side" else "signal"
    return RestartPolicy(
        chosen.when or default, chosen.max, chosen.window, chosen.backoff, chosen.max_backoff
    )


def _with_summaries(request: _Request, tasks: list[TaskPlan]) -> list[TaskPlan]:
    """On other hosts, TensorBoard's files are not where it runs."""
    chief, board = chief_of(tasks), request.inputs.file.tensorboard
    if not board or not request.inputs.remote_hosts or chief is None:
        return tasks
    folder = summary_folder(board, chief, request.at(chief.task).run.folder)
    return [replace(entry, summaries=folder) if entry is chief else entry for entry in tasks]


def _with_needs(tasks: list[TaskPlan]) -> list[TaskPlan]:
    """Programs start after every server of psclust's, so no client has to wait for a server."""
    servers = tuple(entry.task for entry in tasks if entry.serves)
    return [entry if entry.serves else replace(entry, needs=servers) for entry in tasks]
