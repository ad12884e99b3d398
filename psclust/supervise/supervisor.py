"""The one loop: takes what happened from a queue, asks the rules what to do, does it, and keeps the run's status on disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Protocol, TypeVar

from psclust.errors import PsclustError, StartError, UsageError
from psclust.plan.task_plan import Deadlines, Plan
from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.folder import RunFolder
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import write_status
from psclust.rundir.task_progress import FINISHED, SERVING, TRAINED, Progress
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.events import Event
from psclust.supervise.mailbox import Mailbox
from psclust.supervise.replan import plan_without
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.snapshot import snapshot
from psclust.supervise.state_machine import step
from psclust.transport.api import Transport

log = logging.getLogger(__name__)
_T = TypeVar("_T")

_PROBE_INTERVAL = 0.01  # while a server has been started and does not answer yet
_SCRIPT_INTERVAL = 0.1  # while a script that is to serve has been started and does not answer yet
_IDLE_INTERVAL = 0.5
_STATUS_INTERVAL = 0.1  # the status file is written at most this often
_DRAIN = 2.0  # for a dead task's last output to reach its log


class Reaper(Protocol):
    """What the supervisor needs of a transport beyond the Transport protocol: it is the parent of the tasks on this machine, and knows of
    hosts that have been silent for some time, and what tasks say of themselves."""

    def reap(self) -> None: ...

    def drain(self, task: Task, timeout: float) -> None: ...

    def silent(self) -> Collection[str]: ...

    def progress(self, task: Task) -> str | None: ...


class Supervisor:
    """Owns a run's state. Everything that changes it happens in `run`; other threads `post` events or `call` for work on that thread."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.folder = folder
        self.name = name
        self._mailbox: Mailbox[Event] = Mailbox()
        self._state = RunState(began=time.monotonic())
        self._changed = threading.Condition()
        self._version = 0
        self._status = snapshot(self._state, folder, name, {}, time.monotonic())
        self._status_written = 0.0
        self._status_stale = True
        self._lost: dict[Task, int] = {}

    # ------------------------------------------------------------------------------------------ from any thread

    def post(self, event: Event) -> None:
        self._mailbox.post(event)

    def children_changed(self) -> None:
        """A signal handler may call this."""
        self._mailbox.wake()

    def started(self, task: Task, pid: int) -> None:
        self.post(events.Started(task, pid))

    def not_started(self, task: Task, reason: str) -> None:
        self.post(events.NotStarted(task, reason))

    def exited(self, task: Task, code: int) -> None:
        self.post(events.Exited(task, code))

    def host_lost(self, host: str, reason: str, *, all_hosts: bool = False) -> None:
        self.post(events.HostLost(host, reason, all_hosts))

    def note(self, text: str) -> None:
        self.post(events.Note(text))

    def host_silent(self, host: str, silent: bool) -> None:
        self.post(events.HostSilent(host, silent))

    def deadlines(self) -> Deadlines | None:
        """Those of the plan, once there is one."""
        return self._state.plan.deadlines if self._state.plan else None

    def soon(self, work: Callable[[], None]) -> None:
        self._mailbox.soon(work)

    def call(self, work: Callable[[], _T]) -> _T:
        """Run `work` on the supervisor's thread, which owns the transport; returns its result or raises its error."""
        return self._mailbox.call(work)

    def apply(self, plan: Plan) -> RunStatus:
        """Make `plan` true; answers once the run has taken it over. Raises StartError when the plan cannot be written down, and UsageError
        when it is about a host that the run has lost."""

        def work() -> RunStatus:
            self._refuse_lost(plan)
            self._take_over(plan)
            return self.status()

        return self._mailbox.call(work)

    def status(self) -> RunStatus:
        return self._status

    def wait_for_change(self, version: int, timeout: float) -> tuple[int, RunStatus]:
        """The status and its version, once it is newer than `version` or the time (seconds) is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, timeout)
            return self._version, self._status

    # ------------------------------------------------------------------------------------------ the supervisor's own thread

    def run(self, transport: Transport, reaper: Reaper) -> RunStatus:
        """Until the run has ended; then its last status."""
        self._transport, self._reaper = transport, reaper
        while self._state.phase is not RunPhase.ENDED:
            event = self._mailbox.take(self._patience(), reaper.reap)
            if event is not None:
                self._handle(event)
            self._probe()
            self._publish()
        self._publish(final=True)
        return self._status

    def _patience(self) -> float:
        if any(entry.plan.serves and entry.phase is TaskPhase.STARTING for entry in self._state.tasks.values()):
            return _PROBE_INTERVAL
        waiting = _SCRIPT_INTERVAL if any(entry.awaited for entry in self._state.tasks.values()) else _IDLE_INTERVAL
        dues = [entry.due for entry in self._state.tasks.values() if entry.due is not None]
        soonest = min(dues, default=float("inf")) - time.monotonic()
        pending_status = _STATUS_INTERVAL if self._status_stale else waiting
        return max(0.0, min(pending_status, soonest))

    def _handle(self, event: Event) -> None:
        if isinstance(event, events.HostLost):
            # What programs last said of themselves tells what they can do without.
            for entry in list(self._state.tasks.values()):
                self._look_at_progress(entry)
        if not isinstance(event, events.Tick):
            log.info("%s", _brief(event))
        self._state, actions = step(self._state, event, time.monotonic())
        self._status_stale = self._status_stale or not isinstance(event, events.Tick) or bool(actions)
        for action in actions:
            log.info("-> %s", _brief(action))
            if isinstance(action, events.Start):
                with suppress(OSError):
                    self.folder.progress(action.plan.task).unlink(missing_ok=True)
                self._transport.start(action.plan, action.attempt, self.folder.log(action.plan.task, action.attempt))
            elif isinstance(action, events.Signal):
                self._transport.signal(action.task, action.signal)
            elif isinstance(action, events.Move):
                self._move(action)

    def _refuse_lost(self, plan: Plan) -> None:
        gone = {entry.host for entry in plan.tasks} & set(self._state.lost) - set(plan.lost)
        if gone:
            names = ", ".join(sorted(gone))
            raise UsageError(f"{names}: lost, and this run goes on without. Leave it out of `hosts`; if it was lost just now, try again.")

    def _take_over(self, plan: Plan) -> None:
        try:
            write_atomically(self.folder.plan, plan.to_json())
        except OSError as error:
            raise StartError(f"{self.folder.plan}: {error.strerror}. Make room, or choose another place with --run-dir.") from None
        self._handle(events.Apply(plan))

    def _move(self, move: events.Move) -> None:
        old = self._state.plan
        assert old is not None
        # An idle host that says nothing is no place to go to.
        idle = set(self._reaper.silent()) - {entry.host for entry in old.tasks}
        lost = tuple(dict.fromkeys((*move.lost, *sorted(idle))))
        try:
            self._take_over(plan_without(self.folder, old, lost, self._transport.reserve, news=move.otherwise.text))
        except PsclustError as error:
            self._handle(events.NotMoved(move, str(error).rstrip(".")))

    def _probe(self) -> None:
        """Ask every server that was started whether it answers yet, and look whether a program has become a server."""
        for entry in list(self._state.tasks.values()):
            if entry.awaited and self._transport.serving(entry.plan):
                self._handle(events.Serving(entry.plan.task))
            else:
                self._look_at_progress(entry)
        self._handle(events.Tick())

    def _look_at_progress(self, entry: TaskState) -> None:
        if entry.plan.role != "program" or entry.phase is not TaskPhase.RUNNING or entry.finished:
            return
        task = entry.plan.task
        try:
            phase = Progress.from_json(self._reaper.progress(task) or "").phase
        except ValueError:
            return
        over = phase == TRAINED[-1]
        if phase == FINISHED or (phase == SERVING and not entry.joined):
            self._handle(events.Joined(task, done=phase == FINISHED))
        elif phase in TRAINED and (entry.trained, entry.over) != (True, over):
            self._handle(events.Trained(task, over))

    def _publish(self, *, final: bool = False) -> None:
        now = time.monotonic()
        lost = {task: self._transport.output(task).lost for task in self._state.tasks}
        self._status_stale = self._status_stale or lost != self._lost  # who watches is to see what found no room
        if not final and (not self._status_stale or now - self._status_written < _STATUS_INTERVAL):
            return
        if self._state.outcome is not None and self._state.outcome.cause is not None:
            self._reaper.drain(self._state.outcome.cause, _DRAIN if final else 0)
        outputs = {task: self._transport.output(task) for task in self._state.tasks}
        status = snapshot(self._state, self.folder, self.name, outputs, now)
        self._status_stale, self._status_written, self._lost = False, now, lost
        try:
            write_status(self.folder, status)
        except OSError as error:
            log.warning("status.json: %s", error.strerror)
        with self._changed:
            self._version += 1
            self._status = status
            self._changed.notify_all()


def _brief(item: object) -> str:
    if isinstance(item, events.Apply):
        return f"Apply({len(item.plan.tasks)} tasks)"
    if isinstance(item, events.Start):
        return f"Start({item.plan.task}, attempt {item.attempt})"
    return str(item)
