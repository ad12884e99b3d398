"""What a live run was planned with, in its folder, and its plan without the hosts it has lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from psclust.errors import DamagedFileError, NoRoomError, PsclustError, StartError
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.cluster_layout import ClusterLayout
from psclust.plan.diff import compare, must_save, with_terms_of
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.plan.variables_home import at_home
from psclust.rundir.atomic_file import write_required
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.host_assignment import spare_host
from psclust.spec.jobs import PS, WORKER
from psclust.spec.plurals import counted
from psclust.spec.worker_range import runs_freely
from psclust.supervise.events import Move, Note, NotMoved, Replace
from psclust.supervise.slow_workers import describe_slow
from psclust.transport.api import Transport

Reserve = Callable[[Sequence[PortRequest]], dict[Task, int]]


def write_plan_inputs(folder: RunFolder, inputs: PlanInputs) -> None:
    """Raises StartError when the disk is full."""
    write_required(folder.plan_inputs, inputs.to_json())


def read_plan_inputs(folder: RunFolder) -> PlanInputs | None:
    """None if it has none. Raises DamagedFileError."""
    try:
        return PlanInputs.from_json(folder.plan_inputs.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise _damaged(folder, folder.plan_inputs, f"{where}: {first['msg']}") from None
    except (OSError, ValueError) as error:
        raise _damaged(folder, folder.plan_inputs, error) from None


def read_plan(folder: RunFolder) -> Plan:
    """The plan that a run carries out. Raises DamagedFileError."""
    try:
        return Plan.from_json(folder.plan.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _damaged(folder, folder.plan, error) from None


def _damaged(folder: RunFolder, path: Path, why: object) -> DamagedFileError:
    name = folder.path.parent.name
    return DamagedFileError(path, why, f"End the run (psclust down {name}), and start it again.")


def plan_for(
    action: Move | Replace, folder: RunFolder, old: Plan, transport: Transport
) -> tuple[Plan, bool]:
    """The plan that a decision asks for, and whether the programs save before it is taken over.
    Raises PsclustError where it is impossible."""
    # Do not move tasks to an idle host that is silent.
    idle = set(transport.silent()) - {entry.host for entry in old.tasks}
    if isinstance(action, Replace):
        away = (*old.lost, *sorted(idle - {*old.lost}))
        return plan_elsewhere(folder, old, action, away, transport.reserve), False
    lost = tuple(dict.fromkeys((*action.lost, *sorted(idle))))
    plan = plan_without(folder, old, action, lost, transport.reserve)
    return plan, _saves_first(action, old, plan)


def _saves_first(action: Move, old: Plan, plan: Plan) -> bool:
    return action.leaves and must_save(plan, compare(old, plan))


def impossible(action: Move | Replace, error: PsclustError) -> NotMoved | Note:
    """The answer to a decision that no plan can carry out."""
    why = str(error).rstrip(".")
    if isinstance(action, Move):
        return NotMoved(action, why)
    return Note(
        f"{action.task} makes steps much slower than the other workers, and stays where it is: "
        f"{why} (replace_slow)"
    )


def plan_elsewhere(
    folder: RunFolder, old: Plan, action: Replace, away: Sequence[str], reserve: Reserve
) -> Plan:
    """`old` with a slow worker on a spare slot of another host, but not of one of `away`. Raises
    NoRoomError, and what `reserve` raises."""
    inputs, task = _inputs(folder), action.task
    layout = inputs.lay_out(old.lost, old.hosts, action.absent)
    place = spare_host(layout.hosts, task, layout.job(task.job).job, inputs.file.hosts, away)
    layout = replace(layout, hosts={**layout.hosts, task: place})
    plan = _plan_moved(inputs, folder, old, layout, [task], reserve)
    return replace(
        plan,
        notes=(*old.notes, f"{task} {describe_slow(action.times)}; moved: {task} to {place.name}"),
    )


def _inputs(folder: RunFolder) -> PlanInputs:
    inputs = read_plan_inputs(folder)
    if inputs is None:
        raise StartError(f"{folder.plan_inputs} is gone, and without it no task can move")
    return inputs


def _plan_moved(
    inputs: PlanInputs,
    folder: RunFolder,
    old: Plan,
    layout: ClusterLayout,
    moved: Collection[Task],
    reserve: Reserve,
) -> Plan:
    ports = old.ports(without=moved)
    ports |= reserve(
        [request for request in layout.port_requests(inputs.file.ports) if request.owner in moved]
    )
    plan = build_plan(inputs, layout, Run.of(folder), ports)
    return at_home(with_terms_of(old, plan), old.home)


def plan_without(
    folder: RunFolder, old: Plan, action: Move, lost: Sequence[str], reserve: Reserve
) -> Plan:
    """`old` with the tasks of the lost hosts on other hosts, at ports reserved there; tasks that
    stay keep their ports. The run goes on without workers that are absent, and without those that
    find no other place (jobs.worker.min). A note says why, and what follows. Raises NoRoomError,
    and what `reserve` raises."""
    inputs, absent = _inputs(folder), action.absent
    layout = inputs.lay_out(lost, old.hosts, absent)
    places = {task: host.name for task, host in layout.hosts.items()}
    moved = [
        task for task, host in places.items() if host != old.hosts.get(task) and host not in lost
    ]
    # Else each was there until now.
    earlier = [task for task in absent if old.hosts.get(task) not in lost]
    before = _workers(old.hosts, old.lost, earlier if runs_freely(inputs.file) else ())
    left = _workers(places, lost, absent)
    if not moved and left == before:
        raise NoRoomError("there is no spare slot on another host")
    plan = _plan_moved(inputs, folder, old, layout, moved, reserve)
    parts = [action.otherwise.text]
    if left != before:
        parts.append(f"the run goes on with {counted(left, 'worker')}")
    if moved:
        where = ", ".join(f"{task} to {layout.hosts[task].name}" for task in moved)
        parts.append(f"moved: {where}")
    waits = _saves_first(action, old, plan)  # which has a note of its own
    if not waits and (rest := _rest(inputs.file, old, plan, moved)) is not None:
        parts.append(rest)
    fresh = [host for host in lost if host not in old.lost]
    if left != before and fresh and inputs.file.found is None:
        parts.append(f"once it answers, psclust scale -H +{','.join(fresh)} takes it back")
    return replace(plan, notes=(*old.notes, "; ".join(parts)))


def _workers(places: Mapping[Task, str], lost: Collection[str], absent: Collection[Task]) -> int:
    """How many workers have a place."""
    there = [task for task, host in places.items() if host not in lost and task not in absent]
    return sum(task.job == WORKER for task in there)


def _rest(file: ClusterFile, old: Plan, plan: Plan, moved: Collection[Task]) -> str | None:
    """What follows for the tasks that do not move."""
    resumes = "the training resumes from its last checkpoint"
    if not file.is_elastic:
        same = plan.cluster == old.cluster
        return None if same else f"all tasks start again, and {resumes}"
    again = compare(old, plan).changed.keys() - set(moved)
    if any(task.job == PS for task in moved):
        return resumes
    return "the others end their step and start again" if again else "nobody else stops"
