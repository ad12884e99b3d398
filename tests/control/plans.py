"""Plans of single tasks, for agents that are asked directly."""

from __future__ import annotations

from psclust.plan.task_plan import RestartPolicy, TaskPlan
from psclust.spec.cluster import Task


def program_plan(task: Task, host: str, argv: tuple[str, ...]) -> TaskPlan:
    """Of a program that is never started again."""
    return TaskPlan(
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
        restart=RestartPolicy("never", 0, 1.0, 1.0, 1.0),
        recovery_wait_s=None,
    )
