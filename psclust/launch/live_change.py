"""What `psclust scale` and `rebalance` do: a live run gets a plan with other counts, or another
placement, made of what it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from psclust.errors import UsageError
from psclust.launch.cluster_copy import record_cluster
from psclust.launch.live_run import refuse_another_version
from psclust.launch.start_run import plan_run, record_plan_inputs
from psclust.launch.up_request import UpRequest
from psclust.plan.cluster_layout import lay_out
from psclust.plan.diff import Changes, compare, must_save
from psclust.plan.plan_inputs import PlanInputs, RemoteHost
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.origin import Origin
from psclust.rundir.status import DROPPED, QUEUED, RunStatus
from psclust.spec.checks import check
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.job_keys import MOST_TASKS
from psclust.spec.jobs import PS, WORKER
from psclust.spec.problems import KeyPath, Mistakes, Origins
from psclust.spec.program_command import ProgramKind
from psclust.supervise.replan import read_plan, read_plan_inputs

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient

SCALED = (PS, WORKER)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run of a psclust program, all of whose tasks are up. returning: hosts that it had lost,
    and that join it again."""

    cluster: ClusterFolder
    folder: RunFolder
    status: RunStatus
    plan: Plan
    inputs: PlanInputs
    returning: tuple[str, ...] = ()

    @property
    def lost(self) -> tuple[str, ...]:
        """Hosts that it goes on without."""
        return tuple(host for host in self.plan.lost if host not in self.returning)

    @property
    def file(self) -> ClusterFile:
        return self.inputs.file


@dataclass(frozen=True, slots=True)
class Change:
    """A change that a supervisor has taken over. saves: all tasks start again from a checkpoint.
    attempts: of each task, before. step: that the programs had reached, before. notes: of the run
    so far. back: workers that the run did without, and that have a place again."""

    plan: Plan
    changes: Changes
    saves: bool
    attempts: Mapping[str, int]
    step: int
    notes: tuple[str, ...]
    back: tuple[Task, ...] = ()

    @property
    def pauses(self) -> bool:
        """Whether no step is made for a while."""
        return self.saves or any(self.plan[task].leaves for task in self.again)

    @property
    def again(self) -> tuple[Task, ...]:
        """The tasks that stop, and start again."""
        return tuple(task for task in self.changes.changed if task not in self.back)


def find_live_run(cluster: ClusterFolder, folder: RunFolder, status: RunStatus) -> LiveRun:
    """The run, if it can be changed now. Raises UsageError."""
    name = cluster.name
    if status.phase == QUEUED:
        raise UsageError(f"{name} is queued: nothing of it runs yet. Change it once it is up.")
    if status.phase != "live":
        raise UsageError(f"{name} is about to end; start it anew to change it (psclust up).")
    refuse_another_version(status)
    if not folder.plan.exists() or not status.tasks:
        raise UsageError(f"{name} is still starting; try again when it is up (psclust ps {name}).")
    inputs = read_plan_inputs(folder)
    if inputs is None:
        raise UsageError(
            f"{folder.plan_inputs} is gone, and without it {name} cannot be planned anew. "
            f"End the run (psclust down {name}), and start it again."
        )
    _refuse_another_program(name, inputs.file)
    for phase, text in (
        ("stopping", "is being changed"),
        ("waiting", "is still starting"),
        ("starting", "is still starting"),
        ("backoff", "starts tasks again that have failed"),
    ):
        found = [task.task for task in status.tasks if task.phase == phase]
        if found:
            raise UsageError(
                f"{name} {text} ({', '.join(found)}: {phase}); "
                f"try again when all its tasks run (psclust ps {name})."
            )
    return LiveRun(cluster, folder, status, read_plan(folder), inputs)


def _refuse_another_program(name: str, file: ClusterFile) -> None:
    program = file.program_command
    if program.is_psclust:
        return
    what = (
        "bare servers learn their cluster when they start"
        if program.kind is ProgramKind.NONE
        else f"{program.words[-1]}, which is no psclust program, learns its cluster when it starts"
    )
    raise UsageError(
        f"{name}: {what}. End the run (psclust down {name}), and start it with other counts."
    )


def with_counts(file: ClusterFile, counts: Mapping[str, int], *, name: str) -> ClusterFile:
    """The cluster file with other numbers of ps and workers. Raises UsageError for jobs and
    counts that it cannot have."""
    for job, count in counts.items():
        word = f"{job}={count}"
        if job not in SCALED:
            raise UsageError(f"{word}: only {' and '.join(SCALED)} are scaled.")
        if count > MOST_TASKS:
            raise UsageError(f"{word}: a job has at most {MOST_TASKS} tasks.")
        if file.jobs[job].addresses:
            raise UsageError(
                f"{word}: jobs.{job} has `addresses`, one for each task. Write the new ones there, "
                f"end the run (psclust down {name}), and start it again."
            )
    jobs = {
        job: keys.model_copy(update={"count": counts[job]}) if job in counts else keys
        for job, keys in file.jobs.items()
    }
    scaled = file.model_copy(update={"jobs": jobs})
    words: dict[KeyPath, str] = {
        ("jobs", job, "count"): f"{job}={count}" for job, count in counts.items()
    }
    mistakes = Mistakes(Origins(None, {}, words), [])
    mistakes.add_founded(check(scaled))
    mistakes.refuse()
    return scaled


def with_policy(file: ClusterFile, policy: str) -> ClusterFile:
    placement = file.placement.model_copy(update={"policy": policy})
    return file.model_copy(update={"placement": placement})


def request_of(run: LiveRun, file: ClusterFile) -> UpRequest:
    """Of the run, with another file."""
    inputs, launcher = run.inputs, run.inputs.launcher
    return UpRequest(
        file,
        lay_out(file, run.lost, run.plan.hosts),
        launcher,
        run.cluster,
        inputs.scripts,
        Origin.read(run.folder) or Origin.of(None, launcher.cwd),
        inputs.job_restarts,
    )


def change_run(
    run: LiveRun,
    file: ClusterFile,
    client: SupervisorClient,
    joined: Mapping[str, RemoteHost] = MappingProxyType({}),
) -> Change | None:
    """Have the supervisor take over the plan of the run with this file; None if no task differs.
    joined: hosts that have an agent since just now. Raises UsageError, StartError, NoRunError."""
    request = request_of(run, file)
    names = {host.name for host in file.hosts}
    known = {**run.inputs.remote_hosts, **joined}
    remote_hosts = {host: known[host] for host in known if host in names}
    there = replace(run.plan, lost=run.lost)
    plan = plan_run(request, run.folder, client, remote_hosts, there)
    changes = compare(run.plan, plan)
    if not changes:
        if remote_hosts.keys() != run.inputs.remote_hosts.keys():
            record_plan_inputs(request, run.folder, remote_hosts)
            record_cluster(request, run.folder)
        return None
    saves = must_save(plan, changes)
    step = step_reached(client) or 0
    attempts = {task.task: task.attempt for task in run.status.tasks}
    status = client.apply(plan, save=saves)
    record_plan_inputs(request, run.folder, remote_hosts)
    record_cluster(request, run.folder)
    without = {task.task for task in run.status.tasks if task.phase == DROPPED}
    back = tuple(task for task in changes.changed if str(task) in without)
    return Change(plan, changes, saves, attempts, step, status.notes, back)


def step_reached(client: SupervisorClient) -> int | None:
    """By the programs of the run; None before they make steps. Raises NoRunError."""
    found = [each.step for each in client.readings() if each.role == "program"]
    return max((step for step in found if step is not None), default=None)


def described(change: Change) -> str:
    """What follows, as a sentence without its end."""
    if change.saves:
        return "all tasks start again from a checkpoint of now"
    changes = change.changes
    again = ("ends its step and starts again", "end their step and start again")
    if not change.pauses:
        again = ("starts again", "start again")
    parts = [
        _clause(change.again, *again),
        _clause((*change.back, *changes.added), "joins", "join"),
        _clause(changes.removed, "leaves", "leave"),
        None if change.again else "nobody else stops",
    ]
    return "; ".join(filter(None, parts))


def _clause(tasks: tuple[Task, ...], one: str, several: str) -> str | None:
    return f"{', '.join(map(str, tasks))} {one if len(tasks) == 1 else several}" if tasks else None
