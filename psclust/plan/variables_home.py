"""Where the variables of a live training are, and where they were: a run whose servers know
themselves alone (`psclust.plan.elastic`) gets other ps, or another placement, without a restart.
Each placement has its variables in a TensorFlow container of its own, and the chief of the next one
fetches them from there."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from psclust.placement.home import VARIABLES, VariablesHome
from psclust.plan.diff import compare, must_save, with_terms_of
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.jobs import PS

_NAME = "placement"


def next_home(old: Plan) -> VariablesHome:
    """Of a plan that follows `old`, and whose variables come from there."""
    number = int(old.home.container.rpartition("-")[2] or 1) + 1
    ps = tuple(old.cluster.as_dict()[PS])
    return VariablesHome(f"{_NAME}-{number}", old.home.container, ps)


def at_home(plan: Plan, home: VariablesHome) -> Plan:
    """The plan with its variables there."""
    if home == VariablesHome():
        return plan
    text = json.dumps(asdict(home), separators=(",", ":"))

    def settled(entry: TaskPlan) -> TaskPlan:
        knows = entry.leaves and entry.role == "program"
        return replace(entry, env={**entry.env, VARIABLES: text}) if knows else entry

    return replace(plan, home=home, tasks=tuple(settled(entry) for entry in plan.tasks))


def follow(old: Plan, new: Plan) -> Plan:
    """`new`, as it follows `old` in a live run: with its variables where they are; else with a home
    to which they move, if their servers live on; else they go by a checkpoint (`must_save`)."""
    stays = at_home(with_terms_of(old, new), old.home)
    return at_home(stays, next_home(old)) if _may_move(old, stays) else stays


def _may_move(old: Plan, new: Plan) -> bool:
    changes = compare(old, new)
    return (
        must_save(new, changes)
        and all(any(entry.leaves for entry in plan.tasks) for plan in (old, new))
        and PS in old.cluster.as_dict()
        and not any(old[task].role == "server" for task in changes.changed)
    )
