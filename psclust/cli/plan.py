"""`psclust plan`: what `up` would start, and what it would change if the run is up."""

from __future__ import annotations

from dataclasses import asdict

import click

from psclust.cli import output
from psclust.cli.options import REQUEST_CONTEXT, UpRequest, json_option, read_request, request_options
from psclust.plan.build import Run, build
from psclust.plan.diff import Changes, compare
from psclust.plan.render import render_plan
from psclust.plan.task import Plan
from psclust.spec.cluster import Task


@click.command(context_settings=REQUEST_CONTEXT, short_help="Show what `up` would start.")
@request_options
@json_option
def command(as_json: bool, **flags: object) -> None:
    """Show each task's host, address, arguments, environment and TF_CONFIG, as `up` with the same options would start it; and what would
    change if the run is up. Ports that psclust chooses read `auto` until then. Nothing is started."""
    request = read_request(**flags)  # type: ignore[arg-type]
    running = _running_plan(request)
    plan = _draft(request, running)
    changes = compare(running, plan) if running else None
    if as_json:
        output.data({**asdict(plan), "changes": asdict(_by_name(changes)) if changes is not None else None})
        return
    output.say(render_plan(plan) + "\n")
    _show_changes(plan, changes)


def _running_plan(request: UpRequest) -> Plan | None:
    folder = request.cluster.current() if request.cluster.is_live() else None
    return Plan.from_json(folder.plan.read_text(encoding="utf-8")) if folder and folder.plan.exists() else None


def _draft(request: UpRequest, running: Plan | None) -> Plan:
    folder = request.cluster.current() if running else None
    run = Run(folder.id, str(folder.path)) if folder else Run("<run>", str(request.cluster.path / "<run>"))
    ports = {task.task: int(task.address.rpartition(":")[2]) for task in running.tasks if task.address} if running else {}
    wanted = {entry.task: int(entry.wanted) for entry in request.layout.port_requests(request.file.ports) if entry.wanted.isdigit()}
    return build(request.file, request.site, run, {**ports, **wanted}, script_text=request.script_text)


def _show_changes(plan: Plan, changes: Changes | None) -> None:
    if changes is None:
        output.say(f"{plan.name} is not up; `up` would start these {len(plan.tasks)} tasks.")
        return
    for line in changes.render():
        output.say(line)
    output.say(f"{plan.name} is up; `up` would " + ("make these changes." if changes else "change nothing."))


def _by_name(changes: Changes) -> Changes:
    """With tasks as text, for JSON."""
    changed: dict[Task, str] = {str(task): what for task, what in changes.changed.items()}  # type: ignore[misc]
    return Changes(tuple(map(str, changes.added)), tuple(map(str, changes.removed)), changed)  # type: ignore[arg-type]
