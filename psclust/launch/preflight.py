"""Checks before anything starts: scripts, modules, interpreters, commands and folders that do not
exist, too few open files."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from psclust.errors import MissingPackageError, StartError, UsageError
from psclust.launch.host_agents import other_hosts
from psclust.launch.module_lookup import module_problem
from psclust.launch.up_request import UpRequest
from psclust.plan.job_plan import JobPlan
from psclust.plan.task_plan import TaskPlan
from psclust.reach.batch_jobs import BatchSystem
from psclust.spec.cluster_file import ClusterFile
from psclust.transport.open_files import needed


def refuse_what_cannot_start(request: UpRequest, *, job_of: BatchSystem | None = None) -> None:
    """Raises UsageError with a line for each thing that does not exist. On other hosts, only files
    that are sent there are checked; the nodes of a job to be submitted (to `job_of`) share this
    machine's files, but may have other commands."""
    here = not (job_of.brings_commands(request.file) if job_of else other_hosts(request.file))
    found = (
        problem
        for entry in request.layout.jobs
        for problem in _problems(request, entry, request.first_tasks[entry.name], here)
    )
    beside = () if job_of else _problems_beside(request.file)
    lines = list(dict.fromkeys((*beside, *found)))
    if lines:
        raise UsageError("\n".join(lines))


def _problems_beside(file: ClusterFile) -> Iterator[str]:
    """Of what the supervisor runs beside the tasks."""
    if file.tensorboard and importlib.util.find_spec("tensorboard") is None:
        yield str(MissingPackageError("tensorboard:", "'psclust[tensorboard]'"))
    if file.metrics is not None and importlib.util.find_spec("prometheus_client") is None:
        yield str(MissingPackageError("metrics:", "prometheus_client"))


def refuse_too_few_files(request: UpRequest) -> None:
    """Raises StartError where this shell's limit is too low for the supervisor of so many tasks
    here, or of agents on so many hosts."""
    hosts = len(other_hosts(request.file))
    tasks = 0 if hosts else len(request.layout.tasks)
    have, need = resource.getrlimit(resource.RLIMIT_NOFILE)[1], needed(tasks, hosts)
    if have != resource.RLIM_INFINITY and have < need:
        what = f"{tasks} tasks" if tasks else f"{hosts} hosts"
        raise StartError(
            f"{what} need about {need} open files; this shell allows {have} (ulimit -Hn). "
            "Raise the limit, or start fewer."
        )


def _problems(request: UpRequest, entry: JobPlan, task: TaskPlan, here: bool) -> Iterator[str]:
    """Of the tasks of one job."""
    if entry.program is not None and entry.program.words[0].endswith((".yaml", ".yml")):
        name = entry.program.words[0]
        yield f"{name} is a cluster file; write `psclust up -f {name}`."
        return
    chosen = entry.job.cwd or request.file.cwd or "."
    folder = Path(request.launcher.cwd, chosen)
    if here:
        if not folder.is_dir():
            yield f"{chosen}: there is no such folder; name one that exists under cwd."
            return
        yield from _command_problem(request, entry, task, folder)
    elif Path(chosen).is_absolute():
        return  # a folder on the hosts
    program = entry.python_source(request.file)
    if entry.program is not None and entry.program.is_psclust:
        program = entry.program.words[0]
    if program is None or "{" in program:
        return
    if program.endswith(".py"):
        yield from _script_problem(program, folder)
    else:
        path = task.env.get("PYTHONPATH", request.launcher.environ.get("PYTHONPATH", ""))
        roots = [folder, *(folder / part for part in path.split(os.pathsep) if part)]
        problem = module_problem(
            program, roots, own_interpreter=here and task.argv[0] == sys.executable
        )
        if problem is not None:
            yield problem


def _script_problem(script: str, folder: Path) -> Iterator[str]:
    try:
        with (folder / script).open("rb"):
            pass
    except OSError as error:
        yield f"{script}: {error.strerror} in {folder.resolve()}. Name a script that can be read."


def _command_problem(
    request: UpRequest, entry: JobPlan, task: TaskPlan, folder: Path
) -> Iterator[str]:
    name = task.argv[0]
    is_python = entry.program is None or entry.program.is_python
    if _finds(name, folder, task.env.get("PATH", request.launcher.environ.get("PATH"))):
        return
    if is_python:
        yield (
            f"{name}: there is no such interpreter, or it cannot be executed; "
            "name one that exists (--python, or python: in the file)."
        )
    elif os.path.dirname(name):
        what = (
            "cannot be executed: it is a folder or lacks execute permission"
            if (folder / name).exists()
            else "there is no such command"
        )
        yield f"{name}: {what}. Check its name and place."
    else:
        yield f"{name}: there is no such command on the PATH; check its name, or write where it is."


def _finds(name: str, folder: Path, search_path: str | None) -> bool:
    """Whether a task in this folder finds the command; an interpreter may also be relative to where
    `up` is called."""
    name = os.path.expanduser(name)
    if not os.path.dirname(name):
        return shutil.which(name, path=search_path) is not None
    return any(
        os.path.isfile(path) and os.access(path, os.X_OK) for path in (folder / name, Path(name))
    )
