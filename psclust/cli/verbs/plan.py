"""`psclust plan`: what `up` would start, and what it would change if the run is up."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict

import click

from psclust.cli import output
from psclust.cli.common_options import json_option
from psclust.cli.misplaced_options import warn_of_misplaced_options
from psclust.cli.request import request_from_flags
from psclust.cli.request_options import REQUEST_CONTEXT, request_options
from psclust.cli.submitting import submitted
from psclust.cli.way_options import is_submitted, way_options
from psclust.errors import UsageError
from psclust.launch.host_agents import other_hosts
from psclust.launch.live_run import refuse_another_origin
from psclust.launch.planned_link import planned_link
from psclust.launch.preflight import refuse_what_cannot_start
from psclust.launch.program_variables import PlannedPlacement, planned_placement
from psclust.launch.up_request import UpRequest
from psclust.placement import table_text
from psclust.placement.link_speed import LinkSpeed
from psclust.plan.build_plan import Run, build_plan
from psclust.plan.diff import Changes, compare, must_save
from psclust.plan.task_plan import Plan, TaskPlan
from psclust.plan.variables_home import follow
from psclust.reach.python.remote_command import AGENT, candidates, remote_command
from psclust.reach.ways import host_maker
from psclust.rundir.folder import state_root
from psclust.rundir.links_file import read_links
from psclust.spec.plurals import counted
from psclust.supervise.replan import read_plan, read_plan_inputs

_HOW = {
    "library": "forked, library loaded",
    "tensorflow": "forked, TensorFlow imported",
    "psclust": "forked, TensorFlow and psclust imported",
    "keras": "forked, TensorFlow and Keras imported",
    None: "executed",
}


@click.command(context_settings=REQUEST_CONTEXT)
@request_options
@click.option(
    "--gbit",
    type=click.FloatRange(0, min_open=True),
    help="Speed of the hosts' links, in Gbit/s (default: the slowest that `psclust doctor` has "
    "measured between them in the last 30 days, else 1).",
)
@way_options("plan")
@json_option
def command(as_json: bool, gbit: float | None, **flags: object) -> int:
    """Show each task's host, address, arguments, environment and TF_CONFIG, as `up` with the same
    options would start it; of a psclust program, which ps would hold each variable and what a step
    moves over the network; the command it runs on other hosts; and what would change if the run is
    up. Ports that psclust chooses read `auto` until then. No task is started and no host is asked;
    a psclust program is imported, in a process of its own."""
    if is_submitted(flags):
        return submitted(flags, only_show=True, as_json=as_json)
    return show(flags, as_json=as_json, gbit=gbit)


def show(flags: Mapping[str, object], *, as_json: bool = False, gbit: float | None = None) -> int:
    """Print the plan of the request that `flags` make; the exit code. gbit: speed of the links, in
    Gbit/s, if the user says it."""
    request = request_from_flags(**flags)  # type: ignore[arg-type]
    warn_of_misplaced_options(request, flags["program"])  # type: ignore[arg-type]
    running = _running_plan(request)
    plan = _plan(request, running)
    remote = {} if running else _remote(request)
    maker = None if running else host_maker(request.file.reach_by)
    made = maker.describe(request.file) if maker else None
    changes = compare(running, plan) if running else None
    if not as_json:
        if request.file.found:
            output.say(request.file.found + "\n")
        output.say(render_plan(plan) + "\n")
    missing = _cannot_start(request)
    placement, problem = _placement(request, plan) if missing is None else (None, missing)
    if as_json:
        shown = asdict(_by_name(changes)) if changes is not None else None
        output.data(
            {
                **asdict(plan),
                "changes": shown,
                "placement": asdict(placement) if placement else None,
                "remote": remote,
                "made": made,
            }
        )
    else:
        if placement is not None:
            hosts = {task.host for task in plan.tasks}
            known = read_links(state_root(os.environ))
            _show_placement(placement, *planned_link(gbit, hosts, known, time.time()))
        if made is not None:
            output.say(f"first, psclust makes:\n\n{made}")
        _show_remote(remote, request.file.reach_by, "first" if made is None else "then")
        if missing is None:
            _show_changes(plan, changes)
    if problem is None:
        return 0
    output.error(str(problem))
    return problem.exit_code


def _cannot_start(request: UpRequest) -> UsageError | None:
    """The plan is still shown if files that it names are missing."""
    try:
        refuse_what_cannot_start(request)
    except UsageError as error:
        return error
    return None


def _placement(request: UpRequest, plan: Plan) -> tuple[PlannedPlacement | None, UsageError | None]:
    """The plan is still shown if the program cannot be asked."""
    try:
        return planned_placement(request, plan), None
    except UsageError as error:
        return None, error


def _show_placement(placement: PlannedPlacement, link: LinkSpeed, link_note: str | None) -> None:
    table, way, one_way = placement.table, placement.way, placement.one_way
    output.say(f"placement {placement.policy} on {placement.ps} ps:\n")
    output.table(table_text.VARIABLES, table_text.variable_cells(table))
    output.say()
    output.table(table_text.TOTALS, table_text.total_cells(table))
    output.say(
        f"\non the wire, {counted(placement.replicas, 'replica')}, {placement.wire_dtype}:\n"
    )
    output.table(table_text.wire_heads(link), table_text.wire_cells(table, way, link, one_way))
    gain = table_text.gain_note(table, way, link, one_way)
    warning = None
    if table.warning and not placement.whole:
        warning = " ".join(filter(None, (f"warning: {table.warning}.", gain)))
    notes = (
        table_text.whole_note(placement.whole),
        link_note,
        table_text.wire_note(table),
        table_text.one_way_note(one_way, way),
        warning,
    )
    for line in notes:
        if line:
            output.say(f"\n{line}")
    output.say()


def _remote(request: UpRequest) -> dict[str, str]:
    """host -> the command that `up` would run there."""
    command = remote_command(candidates(request.file.python))
    return {host.name: command for host in other_hosts(request.file)}


def _show_remote(remote: Mapping[str, str], reach_by: str, when: str) -> None:
    for command in dict.fromkeys(remote.values()):
        output.say(f"{when}, on {', '.join(remote)}, by {reach_by}:\n  {command}")
        output.say(
            "which reads from its standard input what to do: report facts, store missing files, "
            f"start the agent (PYTHON -m {AGENT})"
        )
        output.say("addresses and paths above are those known here; each host reports its own.\n")


def _running_plan(request: UpRequest) -> Plan | None:
    folder = request.cluster.current() if request.cluster.is_live() else None
    if folder is None or not folder.plan.exists():
        return None
    refuse_another_origin(request, folder)
    return read_plan(folder)


def _plan(request: UpRequest, running: Plan | None) -> Plan:
    """Of a live run, with the ports and hosts that this has."""
    folder = request.cluster.current() if running else None
    if running is None or folder is None:
        return request.plan_before_start()
    recorded = read_plan_inputs(folder)
    inputs = request.inputs(recorded.remote_hosts if recorded else {})
    ports = running.ports() | request.layout.fixed_ports(request.file.ports)
    layout = inputs.lay_out(running.lost, running.hosts)
    return follow(running, build_plan(inputs, layout, Run.of(folder), ports))


def _show_changes(plan: Plan, changes: Changes | None) -> None:
    if changes is None:
        output.say(f"{plan.name} is not up; `up` would start {counted(len(plan.tasks), 'task')}.")
        return
    for line in changes.render():
        output.say(line)
    output.say(
        f"{plan.name} is up; `up` would "
        + ("make these changes" if changes else "change nothing")
        + (", and start all tasks again from a checkpoint." if must_save(plan, changes) else ".")
    )


def _by_name(changes: Changes) -> Changes:
    """With tasks as text, for JSON."""
    return Changes(
        tuple(map(str, changes.added)),  # type: ignore[arg-type]
        tuple(map(str, changes.removed)),  # type: ignore[arg-type]
        {str(task): what for task, what in changes.changed.items()},  # type: ignore[misc]
        changes.rules,
    )


def render_plan(plan: Plan) -> str:
    """Notes and rules, then a paragraph for each task: host, the tasks it waits for, command, and
    the variables that psclust adds."""
    first = [f"note: {note}" for note in plan.notes]
    if plan.on_ps_failure != "restart-ps":
        first.append(f"on_ps_failure: {plan.on_ps_failure}")
    if plan.on_worker_failure != "restart-worker":
        first.append(f"on_worker_failure: {plan.on_worker_failure}")
    paragraphs = ["\n".join(first)] if first else []
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
