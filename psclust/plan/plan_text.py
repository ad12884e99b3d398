"""A plan as text, for `psclust plan`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from psclust.plan.task_plan import Plan, TaskPlan

_HOW = {
    "library": "forked, library loaded",
    "tensorflow": "forked, TensorFlow imported",
    "psclust": "forked, TensorFlow and psclust imported",
    "keras": "forked, TensorFlow and Keras imported",
    None: "executed",
}


def render_plan(plan: Plan) -> str:
    """Notes, then a paragraph for each task: host, the tasks it waits for, command, and the
    variables that psclust adds."""
    paragraphs = ["\n".join(f"note: {note}" for note in plan.notes)] if plan.notes else []
    return "\n\n".join([*paragraphs, *("\n".join(_lines(task)) for task in plan.tasks)])


def _lines(task: TaskPlan) -> Iterator[str]:
    decides = ", its end ends the run" if task.decides else ""
    yield (
        f"{task.task}  on {task.host}  {task.address or 'in no cluster'}  ({_HOW[task.preload]} in "
        f"{task.cwd}{decides})"
    )
    if task.needs:
        yield f"  after {', '.join(map(str, task.needs))}"
    yield f"  {shlex.join(task.argv)}"
    for name, value in sorted(task.env.items()):
        yield f"  {name}={shlex.quote(value)}"
