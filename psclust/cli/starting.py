"""Starting the run of `psclust up`, and staying with it."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from psclust.cli import output
from psclust.cli.follower import Follower
from psclust.cli.held_by_program import stay_held
from psclust.cli.host_options import logged_in
from psclust.cli.interrupts import Interrupts
from psclust.cli.startup_notes import StartupNotes
from psclust.cli.summary import report_end
from psclust.cli.terminal_text import look_of
from psclust.errors import MissingPackageError, StartError, UsageError
from psclust.launch.board_request import keep_board
from psclust.launch.held_run import HeldRun, hold_run
from psclust.launch.live_run import claim_or_change
from psclust.launch.preflight import refuse_too_few_files, refuse_what_cannot_start
from psclust.launch.start_run import claim_name, start_run
from psclust.launch.status_stream import StatusStream
from psclust.launch.submission import queue_run
from psclust.launch.up_request import UpRequest
from psclust.plan.diff import Changes
from psclust.plan.task_plan import Plan
from psclust.reach.connections import Connections
from psclust.reach.ways import batch_of, connect
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import SAVED_CODE, RunStatus
from psclust.spec.cluster import Host
from psclust.spec.cluster_file import ClusterFile
from psclust.spec.plurals import counted
from psclust.supervise.pace import Pace

if TYPE_CHECKING:
    from psclust.launch.host_watch import HostWatch

_REDRAW_S = 0.05


def started(
    request: UpRequest,
    held: int | None,
    *,
    detach: bool,
    top: bool,
    keep: bool,
) -> int:
    """The exit code. held: pid of the program that holds the run; see
    `psclust.cli.held_by_program`."""
    if keep and (detach or not request.file.tensorboard):
        why = (
            "it is `up` that leaves it running, so that --detach is not for it"
            if detach
            else "this run has none; add --tensorboard"
        )
        raise UsageError(f"--keep-tensorboard: {why}.")
    if top and importlib.util.find_spec("rich") is None:
        raise MissingPackageError("--top", "rich")
    if top and (detach or not look_of(sys.stdout).moves):
        why = (
            "with --detach nothing is shown; call psclust top later"
            if detach
            else "needs a terminal with colors; leave it out"
        )
        raise UsageError(f"--top: {why}.")
    # Every mistake shows before anything starts.
    refuse_what_cannot_start(request)
    refuse_too_few_files(request)
    if held is not None:
        return _start_held(request, held)
    if request.file.found:
        output.say(request.file.found)
    outcome = claim_or_change(request)
    if isinstance(outcome, Changes):
        _show_changes(request, outcome)
        return 0
    folder, lock = outcome
    code = _start_and_stay(request, folder, lock, detach=detach, keep=keep, top=top)
    system = batch_of(request.file.reach_by)
    if code == SAVED_CODE and system is not None:
        system.start_again(
            request.file,
            os.environ,
            lambda line: output.say(f"psclust: {line}"),
            lambda: queue_run(request, folder),
        )
    return code


def _start_held(request: UpRequest, program: int) -> int:
    """The exit code. program: pid of the process that holds the run. Raises StartError if a run of
    that name is live: another process holds that one."""
    claimed = claim_name(request)
    if claimed is None:
        name = request.cluster.name
        raise StartError(
            f"{name} is up already; end it first (psclust down {name}), "
            "or give this one another name."
        )
    folder, lock = claimed
    with (
        Interrupts() as interrupts,
        hold_run(request, folder, lock, lambda: interrupts.count) as run,
    ):
        with run.ended_on_failure():
            plan, statuses = start_run(run, request, logged_in, lambda line: None)
        return stay_held(program, run, statuses, StartupNotes(plan), interrupts)


def _show_changes(request: UpRequest, changes: Changes) -> None:
    for line in changes.render():
        output.say(line)
    what = "it is being changed." if changes else "nothing differs."
    output.say(f"{request.cluster.name} is up already; {what} Follow it with psclust logs -f")


def _start_and_stay(
    request: UpRequest,
    folder: RunFolder,
    lock: int,
    *,
    detach: bool,
    keep: bool,
    top: bool,
) -> int:
    """The exit code."""
    with (
        Interrupts(term_saves=batch_of(request.file.reach_by) is not None) as interrupts,
        hold_run(request, folder, lock, lambda: interrupts.count) as run,
    ):
        try:
            with run.ended_on_failure(), interrupts.raised():
                plan, statuses = start_run(run, request, _log_in, output.say)
        except KeyboardInterrupt:
            name, code = interrupts.last
            run.end(f"interrupted ({name})", code)
            output.say(
                f"psclust: {request.cluster.name} was stopped before it was up: "
                f"interrupted ({name})"
            )
            return code
        view = output.LiveView([str(task.task) for task in plan.tasks])
        follower = (
            _top_follower(run, view, plan) if top else Follower(folder, view, shown=plan.notes)
        )
        watch = None if detach else _host_watch(request, folder)
        try:
            status = _follow(
                run, statuses, follower, StartupNotes(plan), interrupts, watch, detach=detach
            )
        finally:
            if watch is not None:
                watch.close()
        if detach and status is not None and not status.ended:
            run.client.detach()
            view.close()
            output.say(f"{plan.name} is up: psclust ps, psclust logs -f, psclust down")
            return 0
        run.wait()
        final = run.final_status(status)
        follower.finish(final, stop=lambda: bool(interrupts.unseen()))
        view.close()
        code = report_end(final, follower)
        if keep and run.board is not None:
            output.say(f"psclust: {keep_board(run.board)}")
        return code


def _host_watch(request: UpRequest, folder: RunFolder) -> HostWatch | None:
    """Where workers come and go."""
    if not request.file.hosts or not request.file.is_elastic:
        return None
    from psclust.launch.host_watch import HostWatch

    watch = HostWatch(request.cluster, folder, request.file, partial(connect, partial=True))
    watch.start()
    return watch


def _top_follower(run: HeldRun, view: output.LiveView, plan: Plan) -> Follower:
    from psclust.cli.top_follower import TopFollower  # loads rich

    return TopFollower(run.folder, view, run.client.readings, plan.name, shown=plan.notes)


def _log_in(file: ClusterFile, hosts: Sequence[Host]) -> AbstractContextManager[Connections]:
    if not file.found:
        output.say(f"logging in to {counted(len(hosts), 'host')}")
    return logged_in(file, hosts)


def _follow(
    run: HeldRun,
    statuses: StatusStream,
    follower: Follower,
    notes: StartupNotes,
    interrupts: Interrupts,
    watch: HostWatch | None,
    *,
    detach: bool,
) -> RunStatus | None:
    """Until the run has ended, or, detaching, until everything is up. None when the supervisor is
    gone."""
    status: RunStatus | None = None
    name = notes.plan.name
    behind = False
    showing = Pace(_REDRAW_S)
    asked = wanted = 0  # how often it has been, or is to be, asked to end
    saving = False  # whether it has been asked to save
    while not statuses.over:
        status = statuses.latest(0 if behind else max(_REDRAW_S, showing.wait_s())) or status
        output.report_lost_output(
            f"; the run goes on, its output is in {name}'s logs (psclust logs {name})"
        )
        if status is not None:
            with showing.working():
                behind = follower.show(status)
            for line in notes.updates(status, time.monotonic()):
                follower.view.note(line)
            if detach and notes.over:
                return status
        for line in watch.told() if watch is not None else ():
            follower.view.note(line)
        if interrupts.saving and not saving:
            saving = run.ask_to_save(f"saved and stopped ({interrupts.saving})", SAVED_CODE)
            follower.view.note(
                f"{interrupts.saving}: the programs save their work and end; "
                "Ctrl-C twice to stop now"
            )
        for wanted in interrupts.unseen():
            follower.view.note("stopping; once more to stop now" if wanted == 1 else "stopping now")
        if wanted > asked:
            signal, code = interrupts.last
            if run.ask_to_end(f"interrupted ({signal})", code, now=wanted > 1):
                asked = wanted
    return status
