"""A live run's plan without the hosts that it has lost, made of what the run's folder keeps for that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from psclust.errors import NoRoomError, StartError
from psclust.plan.build_plan import Run
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.port_request import PortRequest
from psclust.plan.task_plan import Plan
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task

Reserve = Callable[[Sequence[PortRequest]], dict[Task, int]]


def keep(folder: RunFolder, inputs: PlanInputs) -> None:
    """Raises StartError when there is no room for it."""
    try:
        write_atomically(folder.plan_inputs, inputs.to_json())
    except OSError as error:
        raise StartError(f"{folder.plan_inputs}: {error.strerror}. Make room, or choose another place with --run-dir.") from None


def recall(folder: RunFolder) -> PlanInputs | None:
    """What `keep` kept; None for a run on this machine."""
    try:
        return PlanInputs.from_json(folder.plan_inputs.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def plan_without(folder: RunFolder, old: Plan, lost: Sequence[str], reserve: Reserve, *, news: str) -> Plan:
    """`old` with the tasks of the lost hosts on others, at ports that are reserved there; whoever stays keeps its port. `news` and who
    moves where become a note. Raises NoRoomError, and what `reserve` raises."""
    inputs = recall(folder)
    if inputs is None:
        raise StartError(f"{folder.plan_inputs} is gone, and without it no task can move")
    layout = inputs.lay_out(lost)
    moved = [entry.task for entry in old.tasks if layout.hosts[entry.task].name != entry.host]
    if not moved:
        raise NoRoomError("there is no spare slot on another host")
    ports = old.ports(without=moved)
    ports |= reserve([request for request in layout.port_requests(inputs.file.ports) if request.owner in moved])
    plan = inputs.plan(Run(folder.id, str(folder.path)), ports, lost)
    where = ", ".join(f"{task} to {layout.hosts[task].name}" for task in moved)
    rest = "" if plan.cluster == old.cluster else "; all tasks start again, and the training resumes from its last checkpoint"
    return replace(plan, notes=(*old.notes, f"{news}; moved: {where}{rest}"))
