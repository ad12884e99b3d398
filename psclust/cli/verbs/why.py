"""`psclust why`: what every task of a live run does, and which task waits for which."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import click

from psclust.cli import output
from psclust.cli.common_options import json_option, run_dir_option
from psclust.cli.run_selection import current_run, find_cluster
from psclust.rundir.events_file import Record, read_events

_TROUBLE = {"exit", "restart", "not_started", "host_silent", "host_back", "host_lost", "move"}
_LATELY_S, _LATELY = 600.0, 5


@click.command()
@click.argument("name", required=False)
@json_option
@run_dir_option
def command(name: str | None, as_json: bool, run_dir: str | None) -> None:
    """Show what every task of a live run does, since when, and which tasks it waits for; then where
    the Python of programs that wait is, and what has failed in the last ten minutes. No task is
    stopped for it."""
    from psclust.control.supervisor_client import SupervisorClient
    from psclust.supervise.task_finding import render

    cluster = find_cluster(name, run_dir, live=True)
    folder = current_run(cluster)
    with SupervisorClient(folder) as client:
        findings = client.explain()
    if as_json:
        output.data(list(map(asdict, findings)))
        return
    for line in render(findings, output.duration):
        output.say(line)
    for line in trouble(read_events(folder.events), time.time()):
        output.say(line)


def trouble(events: Iterable[Record], now_s: float) -> Iterator[str]:
    """Lines about what has failed lately, the last at the end. now_s: seconds since the epoch."""
    from psclust.cli.run_report.story import clause_of

    found = [event for event in _troubles(events) if event["time"] > now_s - _LATELY_S]
    if found:
        yield from ("", "lately:")
    for event in found[-_LATELY:]:
        task = f"{event['task']}  " if "task" in event else ""
        yield (
            f"    {output.duration(max(0.0, now_s - event['time']))} ago  {task}{clause_of(event)}"
        )


def _troubles(events: Iterable[Record]) -> Iterator[Record]:
    """What has failed, and of tasks that start again for one reason the first: without the exits
    that psclust asked for."""
    asked, last = set(), None
    for event in events:
        attempt = event.get("task"), event.get("attempt")
        if event["kind"] == "signal":
            asked.add(attempt)
        if event["kind"] not in _TROUBLE or event.get("exit_code") == 0:
            continue
        if event["kind"] == "exit" and attempt in asked:
            continue
        reason = (event["reason"], event["time"]) if event["kind"] == "restart" else None
        if reason is None or reason != last:
            yield event
        last = reason or last
