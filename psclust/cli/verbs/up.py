"""`psclust up`: start a cluster and stay with it until it ends; on a running one, change what differs."""

from __future__ import annotations

import os
import queue
import resource
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from psclust.cli import output
from psclust.cli.arrival import Arrival
from psclust.cli.follow import Follower
from psclust.cli.held_run import HeldRun
from psclust.cli.host_options import HostRequest, logged_in
from psclust.cli.interrupts import Interrupts
from psclust.cli.live_run import refuse_another_origin, refuse_another_version
from psclust.cli.misplaced import tell_misplaced
from psclust.cli.options import REQUEST_CONTEXT, read_request, request_options
from psclust.cli.summary import ending
from psclust.errors import NoRunError, StartError
from psclust.launch.bring_up import bring_up, other_hosts, refuse_other_hosts
from psclust.launch.startable import refuse_what_cannot_start
from psclust.launch.up_request import UpRequest
from psclust.plan.build_plan import RemoteHost, Run, build_plan
from psclust.plan.cluster_layout import lay_out
from psclust.plan.diff import compare
from psclust.plan.plan_inputs import PlanInputs
from psclust.plan.task_environment import library_environment
from psclust.plan.task_plan import Plan
from psclust.rundir.folder import RunFolder
from psclust.rundir.old_runs import prune_beyond_limit
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import read_status, write_status
from psclust.spec.cluster import Host
from psclust.spec.plurals import counted
from psclust.supervise.replan import keep, recall
from psclust.transport.open_files import needed

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient

_HOSTS_UP = 600.0  # for hosts to be ready
_ANSWER_DEADLINE = 60.0  # for a supervisor to answer after it was forked
_LIVE_RUN_DEADLINE = 60.0  # for a run that is just ending, or just beginning
_REDRAW = 0.05
_PROCESS_HINT = "Perhaps the limit of processes (ulimit -u) or the memory is used up."


@click.command(context_settings=REQUEST_CONTEXT)
@request_options
@click.option("-d", "--detach", is_flag=True, help="Leave the run alone once it is up.")
@click.option("--dry-run", is_flag=True, help="Start nothing, show what would be started: `psclust plan`.")
def command(detach: bool, dry_run: bool, **flags: object) -> int:
    """Start a cluster, train on it, watch it, end it.

    PROGRAM is train.py, module:program, -m module, or -- any command; without one the cluster is bare servers. Options come before
    PROGRAM; everything after it belongs to the program.

    \b
    psclust up psclust.examples.digits:program
    psclust up --ps 2 --workers 4 train.py --lr 0.1
    """
    request = read_request(**flags)  # type: ignore[arg-type]
    tell_misplaced(request, flags["program"])  # type: ignore[arg-type]
    if dry_run:
        from psclust.cli.verbs.plan import show

        return show(request, as_json=False)
    hosts = other_hosts(request.file)
    # Every mistake shows before anything starts.
    draft = build_plan(request.file, request.launcher, Run("-", "-"), {}, scripts=request.scripts)
    refuse_what_cannot_start(request, draft)
    _refuse_too_few_files(0 if hosts else len(draft.tasks), len(hosts))
    patience = _LIVE_RUN_DEADLINE + (_HOSTS_UP if hosts else 0)
    deadline = time.monotonic() + patience
    while True:
        try:
            lock = request.cluster.lock()
            folder = request.cluster.new_run() if lock is not None else None
            if folder is not None:
                request.origin.write(folder)
                prune_beyond_limit(request.cluster.path.parent)
        except OSError as error:
            raise StartError(
                f"{error.filename or request.cluster.path}: {error.strerror}; runs are kept there. Choose another place with --run-dir."
            ) from None
        if lock is not None and folder is not None:
            return _start(request, folder, lock, hosts, detach=detach)
        changed = _change(request)
        if changed is not None:
            return changed
        if time.monotonic() > deadline:
            raise StartError(f"{request.cluster.name}: another run is still beginning, or ending, after {patience:g} s; see `psclust ps`.")
        time.sleep(_REDRAW)


def _refuse_too_few_files(tasks: int, hosts: int) -> None:
    """Raises StartError where this shell's limit is too low for the supervisor of so many tasks here, or of agents on so many hosts."""
    have, need = resource.getrlimit(resource.RLIMIT_NOFILE)[1], needed(tasks, hosts)
    if have != resource.RLIM_INFINITY and have < need:
        what = f"{tasks} tasks" if tasks else f"{hosts} hosts"
        raise StartError(f"{what} need about {need} open files; this shell allows {have} (ulimit -Hn). Raise the limit, or start fewer.")


def _start(request: UpRequest, folder: RunFolder, lock: int, hosts: Sequence[Host], *, detach: bool) -> int:
    from psclust.control.supervisor_process import SupervisorRequest, launch

    draft = build_plan(request.file, request.launcher, Run(folder.id, str(folder.path)), {}, scripts=request.scripts)
    warm = [(task.argv[0], task.preload, task.env) for task in draft.tasks if task.preload is not None and not hosts]
    with Interrupts() as interrupts:
        environ, library = request.launcher.environ, library_environment(request.launcher)
        # Whatever becomes of this process, the kernel closes the pipe, and the supervisor ends the run.
        lease, held = os.pipe()
        try:
            guard = launch(SupervisorRequest(folder, request.cluster.name, environ, library, warm, lock, lease), close=(held,))
        except OSError as error:
            raise StartError(f"no process could be started: {error.strerror}. {_PROCESS_HINT}") from None
        finally:
            os.close(lock)
            os.close(lease)
        try:
            return _attend(request, folder, guard, interrupts, hosts, detach=detach)
        finally:
            os.close(held)


def _attend(request: UpRequest, folder: RunFolder, guard: int, interrupts: Interrupts, hosts: Sequence[Host], *, detach: bool) -> int:
    from psclust.control.supervisor_client import SupervisorClient

    with SupervisorClient(folder) as client:
        run = HeldRun(client, folder, guard, interrupts)
        if not client.wait_until_answering(_ANSWER_DEADLINE, run.is_coming_up):
            if not interrupts.count:
                raise _not_started(run)
            run.end("interrupted", interrupts.last[1])
            return _stopped_early(request, interrupts)
        statuses = _Statuses(client.watch())
        try:
            with interrupts.raised():
                plan = _plan(request, folder, client, _bring_up(request, folder, client, hosts) if hosts else {})
            for note in plan.notes:
                output.say(f"psclust: {note}")
            client.apply(plan)
        except KeyboardInterrupt:
            name, code = interrupts.last
            run.end(f"interrupted ({name})", code)
            return _stopped_early(request, interrupts)
        except NoRunError:
            raise _not_started(run) from None
        except BaseException:
            run.end("the cluster could not be started", 3)
            raise
        view = output.LiveView([str(task.task) for task in plan.tasks])
        follower = Follower(folder, view, said=plan.notes)
        status = _follow(run, statuses, follower, view, plan, detach=detach)
        if detach and status is not None and not status.ended:
            client.detach()
            view.close()
            output.say(f"{plan.name} is up: psclust ps, psclust logs -f, psclust down")
            return 0
        run.wait()
    final = _last_word(run, status)
    follower.finish(final, stop=lambda: bool(interrupts.news()))
    view.close()
    return ending(final, follower)


def _bring_up(request: UpRequest, folder: RunFolder, client: SupervisorClient, hosts: Sequence[Host]) -> dict[str, RemoteHost]:
    output.say(f"logging in to {counted(len(hosts), 'host')}")
    with logged_in(HostRequest(hosts, request.file)) as ssh:
        return bring_up(request, folder, client, ssh, output.say)


def _last_word(run: HeldRun, status: RunStatus | None) -> RunStatus:
    """The supervisor's; where it could not speak it, the guard's; this one's where it had to be killed to end."""
    if not run.forced or not run.interrupts.count:
        return status if status is not None and status.ended else read_status(run.folder)
    name, code = run.interrupts.last
    text = f"interrupted ({name}); the supervisor did not answer, so it and everything that it had started was killed"
    final = replace(read_status(run.folder), exit_code=code, text=text)
    with suppress(OSError):
        write_status(run.folder, final)
    return final


def _not_started(run: HeldRun) -> StartError:
    """End a run whose supervisor has ended already, or does not answer; why, in its own words."""
    run.end("the supervisor did not answer", 3)
    return StartError(f"{read_status(run.folder).text}. Its log: {run.folder.supervisor_log}")


def _stopped_early(request: UpRequest, interrupts: Interrupts) -> int:
    name, code = interrupts.last
    output.say(f"psclust: {request.cluster.name} was stopped before it was up: interrupted ({name})")
    return code


def _plan(
    request: UpRequest, folder: RunFolder, client: SupervisorClient, remote_hosts: Mapping[str, RemoteHost], lost: Sequence[str] = ()
) -> Plan:
    """With ports, which are reserved where they are used. Hosts may be lost later; what it takes to plan without them is kept."""
    file, run = request.file, Run(folder.id, str(folder.path))
    layout = lay_out(file, {name: host.address for name, host in remote_hosts.items()}, lost)
    ports = client.reserve(layout.port_requests(file.ports))
    plan = build_plan(file, request.launcher, run, ports, scripts=request.scripts, remote_hosts=remote_hosts, lost=lost)
    if remote_hosts:
        keep(folder, PlanInputs(file, request.scripts, remote_hosts))
    return plan


def _follow(run: HeldRun, statuses: _Statuses, follower: Follower, view: output.LiveView, plan: Plan, *, detach: bool) -> RunStatus | None:
    """Until the run has ended, or, detaching, until everything is up. None when the supervisor is gone."""
    status: RunStatus | None = None
    arrival = Arrival(plan)
    behind = False
    asked = wanted = 0  # how often it has been, or is to be, asked to end
    while not statuses.over:
        newer = statuses.next(0 if behind else _REDRAW)
        status = newer or status
        output.tell_lost_output(f"; the run goes on, its output is in {plan.name}'s logs (psclust logs {plan.name})")
        if status is not None:
            behind = follower.show(status)
            for line in arrival.news(status, time.monotonic()):
                view.note(line)
            if detach and arrival.over:
                return status
        for wanted in run.interrupts.news():
            view.note("stopping; once more to stop now" if wanted == 1 else "stopping now")
        if wanted > asked:
            name, code = run.interrupts.last
            if run.ask_to_end(f"interrupted ({name})", code, now=wanted > 1):
                asked = wanted
    return status


def _change(request: UpRequest) -> int | None:
    """Apply the request to the live run; None when there is none to change after all."""
    from psclust.control.supervisor_client import SupervisorClient

    folder = request.cluster.current()
    if folder is None or not folder.socket.exists() or not folder.plan.exists():
        return None
    refuse_another_origin(request, folder)
    refuse_another_version(read_status(folder))
    old = Plan.from_json(folder.plan.read_text(encoding="utf-8"))
    inputs = recall(folder)
    remote_hosts = inputs.remote_hosts if inputs else {}
    refuse_other_hosts(request, remote_hosts)
    with SupervisorClient(folder) as client:
        try:
            plan = _plan(request, folder, client, remote_hosts, old.lost)
            changes = compare(old, plan)
            if changes:
                client.apply(plan)
        except NoRunError:
            return None
    for line in changes.render():
        output.say(line)
    output.say(
        f"{plan.name} is up already; " + ("it is being changed." if changes else "nothing differs.") + " Follow it with psclust logs -f"
    )
    return 0


class _Statuses:
    """A stream of statuses, read by a thread of its own."""

    def __init__(self, stream: Iterator[RunStatus]) -> None:
        self._queue: queue.SimpleQueue[RunStatus] = queue.SimpleQueue()
        self._done = threading.Event()
        threading.Thread(target=self._read, args=(stream,), name="statuses", daemon=True).start()

    @property
    def over(self) -> bool:
        return self._done.is_set() and self._queue.empty()

    def next(self, timeout: float) -> RunStatus | None:
        """The latest status, if one comes in time."""
        try:
            status = self._queue.get(timeout=timeout)
            while not self._queue.empty():
                status = self._queue.get()
        except queue.Empty:
            return None
        return status

    def _read(self, stream: Iterator[RunStatus]) -> None:
        for status in stream:
            self._queue.put(status)
        self._done.set()
