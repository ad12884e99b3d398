"""The difference between two plans, for a second `up`: tasks to add, remove or restart. All others
keep running, also when only the rules about deaths differ."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace

from psclust.placement.home import VARIABLES
from psclust.plan.elastic import without_workers
from psclust.plan.task_environment import THREADS
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.jobs import PS

_TRAINS = "psclust.train"  # the module that runs psclust programs
_PLACEMENT = "env.PSCLUST_PLACEMENT"
_HOME = f"env.{VARIABLES}"  # they go there by themselves
# Only the supervisor uses these, so a change takes effect without a restart.
_OF_SUPERVISOR = {
    "role",
    "needs",
    "decides",
    "ok_exit_codes",
    "restart",
    "elsewhere",
    "failure_hint",
    "summaries",
    "grows",
    "leaves",
}
_OF_AGENTS = ("lease_s", "detached_s", "lost_s")
# Field of a Plan -> the key of the cluster file.
_RULES = {
    "on_ps_failure": "on_ps_failure",
    "on_worker_failure": "on_worker_failure",
    "min_workers": "jobs.worker.min",
    "replace_slow": "replace_slow",
}


@dataclass(frozen=True, slots=True)
class Changes:
    """`changed`: task -> the parts that differ, for example `argv, env.LR`. `rules`: key -> its new
    value, for example on_ps_failure -> fail."""

    added: tuple[Task, ...]
    removed: tuple[Task, ...]
    changed: dict[Task, str]
    rules: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.rules)

    def render(self) -> list[str]:
        """One line a task or rule: `+ worker:2`, `- worker:1`, `~ worker:0 (argv)`,
        `~ on_ps_failure: fail`."""
        lines = [f"+ {task}" for task in self.added] + [f"- {task}" for task in self.removed]
        lines += [f"~ {task} ({what})" for task, what in self.changed.items()]
        return lines + [f"~ {key}: {value}" for key, value in self.rules.items()]


def must_save(new: Plan, changes: Changes) -> bool:
    """Whether a psclust program must save before a live run takes over `new`: its variables go to
    other servers, or to other places on them."""
    if not any(_TRAINS in entry.argv for entry in new.tasks if entry.role == "program"):
        return False
    servers = {entry.task for entry in new.tasks if entry.role == "server"}
    if any(_HOME in what.split(", ") for what in changes.changed.values()):
        return not servers.isdisjoint(changes.changed)
    moved = any(task.job == PS for task in (*changes.added, *changes.removed))
    placed = any(_PLACEMENT in what.split(", ") for what in changes.changed.values())
    return moved or placed or not servers.isdisjoint(changes.changed)


def with_terms_of(old: Plan, new: Plan) -> Plan:
    """`new` with the times that the agents of the run were given, as `old` has them."""
    terms = {name: getattr(old.deadlines, name) for name in _OF_AGENTS}
    return replace(new, deadlines=replace(new.deadlines, **terms))


def compare(old: Plan, new: Plan) -> Changes:
    before = {entry.task: entry for entry in old.tasks}
    after = {entry.task: entry for entry in new.tasks}
    back = {*old.lost} - {*new.lost}
    differing = {
        task: _difference(before[task], after[task])
        or ("host" if before[task].host in back else "")
        for task in after
        if task in before
    }
    return Changes(
        added=tuple(task for task in after if task not in before),
        removed=tuple(task for task in before if task not in after),
        changed={task: what for task, what in differing.items() if what},
        rules=_changed_rules(old, new),
    )


def _changed_rules(old: Plan, new: Plan) -> dict[str, str]:
    """Of the run, and of jobs. What tells agents how long they wait stays as it was."""
    found = {
        key: _shown(getattr(new, name))
        for name, key in _RULES.items()
        if getattr(old, name) != getattr(new, name)
    }
    limits, before = asdict(new.deadlines), asdict(old.deadlines)
    found |= {
        f"deadlines.{name.removesuffix('_s')}": _shown(value)
        for name, value in limits.items()
        if value != before[name] and name not in _OF_AGENTS
    }
    earlier = {entry.task: entry for entry in old.tasks}
    for entry in new.tasks:
        known = earlier.get(entry.task, entry)
        if entry.restart != known.restart:
            rule = entry.restart
            found[f"restart of {entry.task.job}"] = f"{rule.when}, at most {rule.max}"
        if entry.ok_exit_codes != known.ok_exit_codes:
            codes = ", ".join(map(str, entry.ok_exit_codes))
            found[f"ok_exit_codes of {entry.task.job}"] = codes
        if entry.decides != known.decides:
            deciding = dict.fromkeys(each.task.job for each in new.tasks if each.decides)
            found["ends_with"] = ", ".join(deciding) or "never"
    return found


def _shown(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _difference(old: TaskPlan, new: TaskPlan) -> str:
    """A task keeps its number of threads when others come or go; one that grows lives with any
    number of workers."""
    names = [field.name for field in fields(TaskPlan) if field.name not in _OF_SUPERVISOR | {"env"}]
    parts = [name for name in names if getattr(old, name) != getattr(new, name)]
    before, after = (
        (without_workers(old.env), without_workers(new.env))
        if old.grows and new.grows
        else (old.env, new.env)
    )
    variables = sorted(
        name for name in {*before, *after} - {THREADS} if before.get(name) != after.get(name)
    )
    return ", ".join(parts + [f"env.{name}" for name in variables])
