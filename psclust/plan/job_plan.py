"""One job of a plan: the program its tasks run, whether they are in the cluster spec, and whether
their end ends the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psclust.errors import UsageError
from psclust.plan.task_plan import Role
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import Job
from psclust.spec.jobs import (
    BETWEEN_GRAPH,
    PS,
    WORKER,
    is_chief,
    is_in_cluster,
    is_observer,
    server_jobs,
    spec_position,
)
from psclust.spec.placeholders import FREE_PORT, placeholders, texts_of_job
from psclust.spec.program_command import ProgramCommand, ProgramKind, parse_program


@dataclass(frozen=True, slots=True)
class JobPlan:
    """`program` None: its tasks are TensorFlow servers that psclust provides. `decides`: the run
    ends when its tasks have ended. `free_port`: whether each task gets an extra port."""

    name: str
    job: Job
    in_cluster: bool
    program: ProgramCommand | None
    role: Role
    decides: bool
    free_port: bool = False

    @property
    def tasks(self) -> list[Task]:
        return [Task(self.name, index) for index in range(self.job.count)]

    def python_source(self, file: ClusterFile) -> str | None:
        """See `ProgramCommand.python_source`."""
        return (
            self.program.python_source([] if self.job.command else file.args)
            if self.program
            else None
        )


def plan_jobs(file: ClusterFile) -> tuple[JobPlan, ...]:
    """The jobs with tasks, in the order in which TensorFlow lists them. Raises UsageError when
    `ends_with` names a job that runs no program."""
    jobs = {name: job for name, job in file.all_jobs.items() if job.count}
    programs = {name: _program(file, name, jobs[name]) for name in sorted(jobs, key=spec_position)}
    roles = {name: _role(name, program) for name, program in programs.items()}
    deciders = _deciders(file, roles)
    return tuple(
        JobPlan(
            name=name,
            job=jobs[name],
            in_cluster=is_in_cluster(name, jobs[name].in_cluster),
            program=program,
            role=roles[name],
            decides=name in deciders,
            free_port=any(
                found.name == FREE_PORT
                for _, text in texts_of_job(file, name, jobs[name])
                for found in placeholders(text)
            ),
        )
        for name, program in programs.items()
    )


def replication_of(file: ClusterFile) -> str | None:
    """The kind of replication; None for a script that has not been given one, and for servers
    alone."""
    return file.replication or (BETWEEN_GRAPH if file.program_command.is_psclust else None)


def _program(file: ClusterFile, name: str, job: Job) -> ProgramCommand | None:
    program, replication = file.program_command, replication_of(file)
    if job.command:
        return parse_program(job.command)
    if job.run == "program":
        return program
    if job.run == "server" or program.kind is ProgramKind.NONE:
        return None
    every_task_runs_it = replication in (None, BETWEEN_GRAPH) and not program.is_psclust
    return program if every_task_runs_it or name not in server_jobs(replication) else None


def _role(name: str, program: ProgramCommand | None) -> Role:
    if program is None or name == PS:
        return "server"
    return "side" if is_observer(name) else "program"


def _deciders(file: ClusterFile, roles: Mapping[str, Role]) -> Sequence[str]:
    """The jobs whose end ends the run: `ends_with`, by default the chief, else the workers, else
    all that run a program."""
    if isinstance(file.ends_with, list):
        return file.ends_with
    working = [name for name, role in roles.items() if role == "program"]
    chiefs = [name for name in working if is_chief(name)]
    workers = [name for name in working if name == WORKER]
    found = {
        "auto": chiefs or workers or working,
        "chief": chiefs,
        "workers": workers,
        "all": working,
        "never": [],
    }[file.ends_with]
    if not found and file.ends_with in ("chief", "workers"):
        raise UsageError(
            f"ends_with: no {file.ends_with.rstrip('s')} task runs a program here; "
            "name the jobs that decide, as a list."
        )
    return found
