"""How `psclust scale` and `rebalance` change a live run, and what they print."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from psclust.cli import output
from psclust.cli.host_options import logged_in
from psclust.cli.run_selection import current_run, find_cluster, job_runs
from psclust.launch.change_lock import changing_alone
from psclust.launch.change_wait import Made, wait_until_made
from psclust.launch.host_change import (
    SAME_HOSTS,
    HostChange,
    change_with_hosts,
    let_hosts_go,
    taken_back,
    with_hosts,
)
from psclust.launch.live_change import Change, LiveRun, change_run, described, find_live_run
from psclust.plan.task_plan import Plan
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.plurals import counted, counted_tasks
from psclust.supervise.replan import read_plan

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient


def changed(
    name: str | None,
    run_dir: str | None,
    wanted: Callable[[str, ClusterFile], ClusterFile],
    as_json: bool,
    *,
    hosts: HostChange = SAME_HOSTS,
    why_alike: Callable[[LiveRun, ClusterFile], str | None] = lambda run, file: None,
) -> int:
    """Change `hosts` of the run and its file as `wanted`, a function of its name and that file, and
    wait until it is as planned then; the exit code. why_alike: why another file would change
    nothing, as a clause, if it would not."""
    from psclust.control.supervisor_client import SupervisorClient

    cluster = find_cluster(name, run_dir, live=True)
    folder = current_run(cluster)

    def say(text: str) -> None:
        if not as_json:
            output.say(f"{cluster.name}: {text}")

    with SupervisorClient(folder) as client:
        with changing_alone(folder):
            run = taken_back(find_live_run(cluster, folder, job_runs().status(folder)), hosts)
            file = wanted(cluster.name, with_hosts(run, hosts) if hosts else run.file)
            alike = why_alike(run, file)
            change = _change(run, file, hosts, client, say) if alike is None else None
        made = None
        if change is not None:
            say(described(change))
            made = wait_until_made(client, change, output.error, lambda: read_plan(folder))
        if hosts.removed and (made is None or (made.ended is None and not made.replaced)):
            let_hosts_go(run, hosts.removed, client)
            say(f"{', '.join(hosts.removed)} left out")
    if change is None or made is None:
        differs = f"no task differs; it has {_counts(run.plan)}"
        say(differs if hosts else f"nothing differs; {alike or f'it has {_counts(run.plan)}'}")
    elif made.ended is None and not made.replaced:
        say(_summary(change, made))
    if as_json:
        output.data(_record(change.plan if change else run.plan, change, made))
    return _exit_code(cluster.name, made)


def _exit_code(name: str, made: Made | None) -> int:
    """Says why a change was not made."""
    if made is not None and made.replaced:
        output.error(f"{name}: another change came before this one was made; see psclust ps {name}")
        return 1
    if made is not None and made.ended is not None:
        how = "well" if made.ended.ok else f"without success: {made.ended.text}"
        output.error(f"{name} has ended meanwhile, {how}")
        return 0 if made.ended.ok else 1
    return 0


def _change(
    run: LiveRun,
    file: ClusterFile,
    hosts: HostChange,
    client: SupervisorClient,
    say: Callable[[str], None],
) -> Change | None:
    if not hosts.added:
        return change_run(run, file, client)
    say(f"logging in to {counted(len(hosts.added), 'host')}")
    with logged_in(file, hosts.added) as connections:
        return change_with_hosts(run, file, client, connections, say)


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
