"""From a cluster file to a plan: every argument, variable and folder of every task. Pure: ports, environment and what a script's
source says come in as arguments, so a dry run is the first half of the real one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from psclust.plan import environment
from psclust.plan import task_plan as plan_task
from psclust.plan.environment import Site
from psclust.plan.guess import Told, decide
from psclust.plan.layout import JobLayout, Layout, lay_out
from psclust.plan.port_request import extra_port
from psclust.plan.script_facts import ScriptFacts
from psclust.plan.task_plan import Plan, Preload, RestartPolicy, TaskPlan
from psclust.plan.template import Values, fill, placeholder_values
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.cluster_file import ClusterFile, Job
from psclust.spec.import_time import is_read
from psclust.spec.placeholders import placeholders
from psclust.spec.tf_config import render_tf_config


@dataclass(frozen=True, slots=True)
class Run:
    """The run a plan is made for: its id and its folder."""

    id: str
    folder: str


@dataclass(frozen=True, slots=True)
class Place:
    """What is known of another host: what it is like, the run's folder there, and the address at which others reach it."""

    site: Site
    folder: str
    address: str


@dataclass(frozen=True, slots=True)
class _Request:
    file: ClusterFile
    site: Site
    run: Run
    layout: Layout
    cluster: ClusterSpec
    told: Mapping[str, Told]
    places: Mapping[str, Place]
    ports: Mapping[Task, int]
    hidden: frozenset[str]

    def at(self, task: Task) -> _Request:
        """The request as the task's host sees it."""
        place = self.places.get(self.layout.hosts[task].name)
        return replace(self, site=place.site, run=replace(self.run, folder=place.folder)) if place else self


def build(
    file: ClusterFile,
    site: Site,
    run: Run,
    ports: Mapping[Task, int],
    *,
    scripts: Mapping[str, ScriptFacts] | None = None,
    places: Mapping[str, Place] | None = None,
    lost: Sequence[str] = (),
) -> Plan:
    """The plan of `file`. `ports` holds the reserved port of each task (one that is missing reads `auto`); `scripts` are the facts of each
    job's Python program, where its source could be read; `places` other hosts, by name; `lost` those of the file that the run has lost.
    Raises UsageError for a placeholder that does not exist."""
    places = places or {}
    layout = lay_out(file, {name: place.address for name, place in places.items()}, lost)
    count = sum(entry.job.count for entry in layout.jobs)
    scripts = scripts or {}
    told = {entry.name: decide(file, entry, scripts.get(entry.name), count) for entry in layout.jobs}
    hidden = {job: facts.hides for job, facts in scripts.items() if facts.hides is not None and file.preload}
    request = _Request(file, site, run, layout, layout.cluster_spec(ports), told, places, ports, frozenset(hidden))
    everybody = [(entry, Task(entry.name, index)) for entry in layout.jobs for index in range(entry.job.count)]
    tasks = [_task_plan(request.at(task), entry, task) for entry, task in everybody]
    return Plan(
        name=file.name,
        cluster=request.cluster,
        tasks=tuple(_with_needs(tasks)),
        deadlines=plan_task.Deadlines(**file.deadlines.model_dump()),
        notes=(*dict.fromkeys(each.note for each in told.values() if each.note), *_hidden_notes(hidden), *_site_notes(site, places)),
        lost=tuple(lost),
    )


def _hidden_notes(hidden: Mapping[str, str]) -> list[str]:
    return [
        f"{name} in the program's folder hides a module that TensorFlow imports, so its tasks are executed, not forked: they start slower."
        for name in dict.fromkeys(hidden.values())
    ]


def _site_notes(site: Site, places: Mapping[str, Place]) -> list[str]:
    notes = []
    if "TF_CONFIG" in site.environ:
        notes.append("TF_CONFIG in your environment belongs to another cluster; it is not passed to the tasks.")
    open_hosts = [name for name, place in places.items() if place.site.shim is None]
    if open_hosts or (site.shim is None and not places):
        where = f" on {', '.join(open_hosts)}" if open_hosts else ""
        notes.append(
            f"The bind shim is missing{where}, so TensorFlow's servers listen on every interface, without authentication, "
            "and a session may wait for ever for a machine that is cut off. "
            "Install a C compiler (apt-get install gcc) and install psclust again."
        )
    return notes


def _task_plan(request: _Request, entry: JobLayout, task: Task) -> TaskPlan:
    file, site, job = request.file, request.site, entry.job
    address = request.cluster.address(task)
    # What `python:` means on another host, that host has said.
    python = job.python or (site.python if request.places else file.python or site.python)
    free_port = request.ports.get(extra_port(task)) if entry.free_port else None
    values = placeholder_values(request.cluster, task, address, name=file.name, run_dir=request.run.folder, free_port=free_port)
    argv, preload = _command(request, entry, task, python)
    return TaskPlan(
        task=task,
        host=request.layout.hosts[task].name,
        address=address,
        argv=tuple(fill(word, values, where=f"jobs.{task.job}: args") for word in argv) if entry.program else argv,
        env=_environment(request, entry, task, values),
        cwd=_folder(request, job),
        preload=preload if preload and not _differs(request, entry, task, preload) else None,
        role=entry.role,
        serves=entry.program is None,
        needs=(),
        decides=entry.decides,
        ok_exit_codes=tuple(job.ok_exit_codes),
        restart=_restart(request, entry),
        recovery_wait=file.recovery_wait or None,
        free_port=free_port,
        excuse=request.told[task.job].excuse,
    )


def _folder(request: _Request, job: Job) -> str:
    """Where the task runs; on another host a relative folder is one of those that came with the program."""
    chosen = job.cwd or request.file.cwd
    if chosen is None or not request.places:
        return chosen or request.site.cwd
    return os.path.join(request.site.cwd, chosen)


def _command(request: _Request, entry: JobLayout, task: Task, python: str) -> tuple[tuple[str, ...], Preload | None]:
    file, job, program = request.file, entry.job, entry.program
    if program is None:
        return _server_command(request, entry, task, python)
    args: list[str] = []
    if not isinstance(job.run, list):
        args += job.args if job.args is not None else file.args
        args += job.extra_args
    args += request.told[entry.name].flags
    args += job.task_args.get(task.index, [])
    forkable = file.preload and entry.name not in request.hidden and program.is_forkable(args)
    preload: Preload | None = "tensorflow" if forkable else None
    return (*program.argv(python), *args), preload


def _differs(request: _Request, entry: JobLayout, task: Task, load: Preload) -> bool:
    """Whether the task has a value of its own for a variable that its fork server reads: one made for it alone would serve nobody else."""
    shared = [*request.file.env.items(), *entry.job.env.items()]
    own = [*entry.job.task_env.get(task.index, {}), *(name for name, value in shared if any(placeholders(str(value))))]
    return any(is_read(name, load) for name in own)


def _server_command(request: _Request, entry: JobLayout, task: Task, python: str) -> tuple[tuple[str, ...], Preload | None]:
    module = "psclust.runtime.python_server" if entry.job.server == "python" else "psclust.runtime.bare_server"
    cluster = environment.render_cluster(request.cluster)
    preload: Preload = "tensorflow" if entry.job.server == "python" else "library"
    flags = ["--cluster", cluster, "--job", task.job, "--task", str(task.index)]
    if entry.job.device_count is not None:
        flags += ["--device-count", str(entry.job.device_count)]
    return (python, "-m", module, *flags), preload if request.file.preload else None


def _environment(request: _Request, entry: JobLayout, task: Task, values: Values) -> dict[str, str]:
    file, job, program = request.file, entry.job, entry.program
    address = request.cluster.address(task)
    env = environment.task_environment(
        request.site,
        request.cluster,
        task,
        run_id=request.run.id,
        run_dir=request.run.folder,
        host=address.rpartition(":")[0] if address else None,
        gpus=_gpus(request, entry, task),
    )
    if request.places:
        env |= environment.peer_timeout(file.deadlines.lease)
    if program is not None and program.kind == "psclust":
        env["PSCLUST_REPLICATION"] = request.layout.replication or "between-graph"
        env["PSCLUST_UPDATE"] = file.update
        if job.device_count is not None:
            env["PSCLUST_DEVICE_COUNT"] = str(job.device_count)
        env["PSCLUST_PLACEMENT"] = environment.placement_policy(file.placement).render()
        env |= environment.pace_environment(file)
    if request.told[entry.name].tf_config:
        env["TF_CONFIG"] = render_tf_config(request.cluster, task)
    for mapping in (file.env, job.env, job.task_env.get(task.index, {})):
        env |= {name: fill(str(value), values, where=f"jobs.{task.job}: env.{name}") for name, value in mapping.items()}
    return env


def _gpus(request: _Request, entry: JobLayout, task: Task) -> range | None:
    """ps and bare servers of a ps job see none; otherwise the tasks of a host share its GPUs out in order."""
    if entry.job.gpus is None:
        return range(0) if task.job == "ps" else None
    first = 0
    for other in request.layout.jobs:
        for index in range(other.job.count):
            if Task(other.name, index) == task:
                return range(first, first + entry.job.gpus)
            if request.layout.hosts[Task(other.name, index)] == request.layout.hosts[task]:
                first += other.job.gpus or 0
    return None


def _restart(request: _Request, entry: JobLayout) -> RestartPolicy:
    chosen = entry.job.restart or request.file.restart
    default: plan_task.When = "failure" if entry.program is None or entry.role == "side" else "signal"
    return RestartPolicy(chosen.when or default, chosen.max, chosen.window, chosen.backoff, chosen.max_backoff)


def _with_needs(tasks: list[TaskPlan]) -> list[TaskPlan]:
    """Programs wait for every server that psclust starts: no client is ever seen waiting for a server."""
    servers = tuple(entry.task for entry in tasks if entry.serves)
    return [entry if entry.serves else replace(entry, needs=servers) for entry in tasks]
