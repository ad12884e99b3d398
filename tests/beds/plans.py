"""Plans of single tasks, for what is given plans directly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from psclust.plan.task_plan import RestartPolicy, TaskPlan
from psclust.spec.cluster import Task

NEVER = RestartPolicy("never", 0, 1.0, 1.0, 1.0)


def program_plan(task: Task, host: str, argv: tuple[str, ...], **changes: Any) -> TaskPlan:
    """Of a program that is never started again."""
    plan = TaskPlan(
        task=task,
        host=host,
        address=None,
        argv=argv,
        env={},
        cwd="/",
        preload=None,
        role="program",
        serves=False,
        needs=(),
        decides=True,
        ok_exit_codes=(0,),
        restart=NEVER,
        recovery_wait_s=None,
    )
    return replace(plan, **changes)
