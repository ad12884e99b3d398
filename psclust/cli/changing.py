"""How `psclust scale` and `rebalance` change a live run, and what they print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from psclust.cli import output
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.launch.change_wait import Made, wait_until_made
from psclust.launch.live_change import Change, LiveRun, change_run, described, find_live_run
from psclust.plan.task_plan import Plan
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.plurals import counted_tasks


def changed(
    name: str | None,
    run_dir: str | None,
    wanted: Callable[[LiveRun], ClusterFile],
    as_json: bool,
    why_alike: Callable[[LiveRun, ClusterFile], str | None] = lambda run, file: None,
) -> int:
    """Give the run the file that is `wanted`, and wait until it has it; the exit code. why_alike:
    why the file would change nothing, as a clause, if it would not."""
    from psclust.control.supervisor_client import SupervisorClient

    cluster = find_cluster(name, run_dir, live=True)
    folder = current_run(cluster)
    run = find_live_run(cluster, folder, job_runs().status(folder))
    file = wanted(run)
    alike = why_alike(run, file)
    with SupervisorClient(folder) as client:
        change = change_run(run, file, client) if alike is None else None
        if change is None:
            if as_json:
                output.data(_record(run.plan, None, None))
            else:
                there = alike or f"it has {_counts(run.plan)}"
                output.say(f"{cluster.name}: nothing differs; {there}")
            return 0
        if not as_json:
            output.say(f"{cluster.name}: {described(change)}")
        made = wait_until_made(client, change, lambda text: output.error(text))
    if as_json:
        output.data(_record(change.plan, change, made))
    elif made.ended is None:
        output.say(f"{cluster.name}: {_summary(change, made)}")
    if made.ended is not None:
        how = "well" if made.ended.ok else f"without success: {made.ended.text}"
        output.error(f"{cluster.name} has ended meanwhile, {how}")
        return 0 if made.ended.ok else 1
    return 0


def _summary(change: Change, made: Made) -> str:
    there = f"{_counts(change.plan)} after {output.duration(made.seconds)}"
    if made.paused_s is None:
        return there
    where = f", and goes on at step {made.step}" if made.step is not None else ""
    return f"{there}; the training paused for {output.duration(made.paused_s)}{where}"


def _counts(plan: Plan) -> str:
    return counted_tasks(Counter(entry.task.job for entry in plan.tasks))


def _record(plan: Plan, change: Change | None, made: Made | None) -> dict[str, object]:
    changes = change.changes if change else None
    return {
        "name": plan.name,
        "tasks": dict(Counter(entry.task.job for entry in plan.tasks)),
        "added": [str(task) for task in changes.added] if changes else [],
        "removed": [str(task) for task in changes.removed] if changes else [],
        "restarted": [str(task) for task in changes.changed] if changes else [],
        "from_checkpoint": change.saves if change else False,
        "seconds": round(made.seconds, 3) if made else None,
        "paused_s": round(made.paused_s, 3) if made and made.paused_s is not None else None,
        "step": made.step if made else None,
        "ended": made.ended.text if made and made.ended else None,
    }
