"""`psclust exec`: a command on every host."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass

import click

from psclust.cli import output
from psclust.cli.common_options import json_option
from psclust.cli.host_options import host_options, logged_in, read_hosts
from psclust.cli.way_options import chosen_way, way_options
from psclust.errors import PsclustError, UsageError
from psclust.reach.connections import Connections
from psclust.reach.fan_out import attempt_on_each
from psclust.reach.run_to_end import run
from psclust.rundir.log_reader import lines_of


@dataclass(frozen=True, slots=True)
class _Row:
    """The outcome on one host; `error` if the command could not be run to its end."""

    host: str
    code: int | None
    seconds: float | None
    stdout: str = ""
    stderr: str = ""
    last_line: str = ""
    error: str | None = None


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@host_options
@way_options("exec")
@click.option(
    "--all-output",
    is_flag=True,
    help="Print the command's whole output on each host, in place of a table.",
)
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Give up on a host after this time (default: never).",
)
@json_option
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(
    path: str | None,
    hosts: str | None,
    hostfile: str | None,
    all_output: bool,
    timeout: float | None,
    as_json: bool,
    words: tuple[str, ...],
    **flags: object,
) -> int:
    """Run COMMAND on all hosts at once. Several words arrive as they are; a single word is a line
    for the shell there.

    \b
    psclust exec -H a,b -- nvidia-smi -L
    psclust exec -- 'df -h / | tail -1'

    Exit code 0 if it was 0 everywhere, else 1.
    """
    file = read_hosts(path, hosts, hostfile, way=chosen_way(flags))
    if not file.hosts:
        raise UsageError("no host is named; write -H a,b, or `hosts:` in the cluster file.")
    line = words[0] if len(words) == 1 else shlex.join(words)
    with logged_in(file, file.hosts) as connections:
        done = attempt_on_each(
            connections.names, lambda host: _run(connections, host, line, timeout)
        )
        rows = [
            _row(host.name, done.get(host.name) or connections.failures[host.name])
            for host in file.hosts
        ]
    _show(rows, as_json=as_json, all_output=all_output)
    return 0 if all(row.code == 0 for row in rows) else 1


def _run(connections: Connections, host: str, line: str, timeout_s: float | None) -> _Row:
    began = time.monotonic()
    result = run(connections, host, line, timeout_s=timeout_s)
    stderr = result.stderr.decode("utf-8", errors="replace")
    return _Row(
        host, result.code, round(time.monotonic() - began, 3), result.text, stderr, result.last_line
    )


def _row(host: str, outcome: _Row | PsclustError | str) -> _Row:
    return (
        outcome
        if isinstance(outcome, _Row)
        else _Row(host, None, None, error=str(outcome).removeprefix(f"{host}: "))
    )


def _show(rows: list[_Row], *, as_json: bool, all_output: bool) -> None:
    if as_json:
        names = ("host", "code", "seconds", "stdout", "stderr", "error")
        output.data([{name: getattr(row, name) for name in names} for row in rows])
    elif all_output:
        view = output.LiveView([row.host for row in rows])
        for row in rows:
            for text in (row.stdout, row.stderr, row.error or ""):
                view.lines(row.host, [f"{line}\n" for line in lines_of(text.encode())])
        view.close()
    else:
        output.table(("HOST", "EXIT", "TIME", "LAST LINE"), [_cells(row) for row in rows])


def _cells(row: _Row) -> tuple[str, str, str, str]:
    time_taken = "-" if row.seconds is None else output.duration(row.seconds)
    code = "-" if row.code is None else "signal" if row.code < 0 else str(row.code)
    return row.host, code, time_taken, row.error or row.last_line
