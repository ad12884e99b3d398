"""The one loop of a run: takes events from a queue, asks the rules what follows, does that, and
keeps the status on disk."""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from psclust import __version__
from psclust.errors import PsclustError, RunEndedError, UsageError
from psclust.plan.task_plan import Deadlines, Plan
from psclust.rundir.atomic_file import write_required
from psclust.rundir.events_file import FORMAT, EventsFile, record
from psclust.rundir.folder import RunFolder
from psclust.rundir.log_tail import tail
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import write_status
from psclust.rundir.task_progress import FINISHED, SERVING, TRAINED, Progress
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.event_records import event_records
from psclust.supervise.events import Event, Stage
from psclust.supervise.exit_code import ended_by_signal
from psclust.supervise.explain import Evidence, Seen
from psclust.supervise.host_loss import hosts_back
from psclust.supervise.mailbox import Mailbox
from psclust.supervise.memory_growth import MemoryGrowth
from psclust.supervise.pace import Pace
from psclust.supervise.reading import Reading
from psclust.supervise.run_end import is_training_over
from psclust.supervise.run_inspection import RunInspection
from psclust.supervise.run_state import RunPhase, RunState, TaskPhase, TaskState
from psclust.supervise.slow_workers import SlowWorkers
from psclust.supervise.snapshot import snapshot
from psclust.supervise.state_machine import transition
from psclust.transport.api import Output, Transport
from psclust.transport.process_facts import Inspector

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_PROBE_S = 0.01  # between probes of a bare server that does not answer yet
_PROBE_SCRIPT_S = 0.1  # the same for a ps script
_IDLE_S = 0.5
_STATUS_S = 0.1  # least time between two writes of the status file
_DRAIN_S = 2.0  # for a dead task's last output to reach its log
_DRAIN_FAILED_S = 0.5  # the same, while the rules wait for it
# Enough for the tracebacks of a session: TensorFlow adds where each op was made.
_FAILURE_LINES = 300

# What the phase in a progress file means to the rules; any other phase means nothing to them.
_STAGES = {
    SERVING: Stage.JOINED,
    FINISHED: Stage.FINISHED,
    **dict.fromkeys(TRAINED, Stage.TRAINED),
    TRAINED[-1]: Stage.LEAVING,
}


class Supervisor:
    """Owns a run's state and its transport. Both are used on one thread only, that of `run`; other
    threads `post` events, or `call`."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.folder = folder
        self.name = name
        self._mailbox: Mailbox[Event] = Mailbox()
        self._began = time.monotonic()
        self._state = RunState(began=self._began)
        self._events = EventsFile(folder.events)
        first = record(
            "run",
            name=name,
            run=folder.id,
            psclust=__version__,
            python=platform.python_version(),
            format=FORMAT,
        )
        self._events.append([first], time.time(), 0.0)
        self._changed = threading.Condition()
        self._version = 0
        self._status = snapshot(self._state, folder, name, {}, time.monotonic())
        self._status_stale = True
        self._publishing, self._probing = Pace(_STATUS_S), Pace(0)
        self._unprobed = True  # whether something has happened since the last probe
        self._lost: dict[Task, int] = {}
        self._seen: dict[Task, Seen] = {}
        # Bytes of an attempt's output, and when they last became more.
        self._printed: dict[Task, tuple[int, float]] = {}
        self._memory = MemoryGrowth()
        self._slow = SlowWorkers()
        self._over = threading.Event()
        self.inspection = RunInspection(self._mailbox, self._known, self._over)

    # ------------------------------------------------ any thread may call; a Listener of transports

    def post(self, event: Event) -> None:
        self._mailbox.post(event)

    def children_changed(self) -> None:
        """For the handler of SIGCHLD."""
        self._mailbox.wake()

    def started(self, task: Task, pid: int) -> None:
        self.post(events.Started(task, pid))

    def not_started(self, task: Task, reason: str) -> None:
        self.post(events.NotStarted(task, reason))

    def exited(self, task: Task, code: int, out_of_memory: str | None = None) -> None:
        self.post(events.Exited(task, code, out_of_memory=out_of_memory))

    def took(self, readings: Sequence[Reading]) -> None:
        """For the sampler."""
        self.soon(lambda: self._judge(readings))

    def deadlines(self) -> Deadlines | None:
        """None before the first plan."""
        return self._state.plan.deadlines if self._state.plan else None

    def soon(self, work: Callable[[], None]) -> None:
        self._mailbox.soon(work)

    def call(self, work: Callable[[], _T]) -> _T:
        """Run `work` on the supervisor's thread, which owns the transport; returns its result or
        raises its error, or RunEndedError when the loop is over."""
        return self._mailbox.call(work)

    def apply(self, plan: Plan, *, save: bool = False) -> RunStatus:
        """Take over a plan (`events.Apply`); returns the status after its first actions. Raises
        StartError when the disk is full, UsageError when the plan uses a host that the run has
        lost, or is to wait for a training that is over."""

        def work() -> RunStatus:
            joined = tuple(filter(self._transport.has_agent, hosts_back(self._state, plan)))
            self._refuse_lost(plan, joined)
            if save and is_training_over(self._state):
                raise UsageError(f"{self.name}: the training is over, and the run is about to end.")
            known = self._state.plan
            if self._state.moving and known is not None and plan.home != known.home:
                raise UsageError(
                    f"{self.name}: its variables are still on their way to where the last change "
                    "has them; try again when it trains."
                )
            self._take_over(plan, save=save, joined=joined)
            return self.status()

        return self._mailbox.call(work)

    def status(self) -> RunStatus:
        return self._status

    def wait_for_change(self, version: int, timeout_s: float) -> tuple[int, RunStatus]:
        """The status and its version, as soon as that is newer than `version`, or after
        `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, timeout_s)
            return self._version, self._status

    # ---------------------------------------------------------------------- the supervisor's thread

    def run(self, transport: Transport) -> RunStatus:
        """Supervise until the run has ended; returns its last status."""
        self._transport = transport
        while self._state.phase is not RunPhase.ENDED:
            event = self._mailbox.take(self._patience_s(), transport.reap)
            if event is not None:
                self._handle(event)
            self._unprobed = self._probing.wait_s() > 0
            if not self._unprobed:
                with self._probing.working():
                    self._probe()
            self._publish()
        self._publish(final=True)
        self._over.set()
        self._mailbox.close(RunEndedError(f"{self.name}: the run has ended."))
        return self._status

    def _patience_s(self) -> float:
        if self._unprobed:
            return self._probing.wait_s()
        if any(
            entry.plan.serves and entry.phase is TaskPhase.STARTING
            for entry in self._state.tasks.values()
        ):
            return _PROBE_S
        waiting = (
            _PROBE_SCRIPT_S
            if any(entry.awaited for entry in self._state.tasks.values())
            else _IDLE_S
        )
        dues = [entry.due for entry in self._state.tasks.values() if entry.due is not None]
        soonest = min(dues, default=float("inf")) - time.monotonic()
        pending_status = self._publishing.wait_s() if self._status_stale else waiting
        return max(0.0, min(pending_status, soonest))

    def _handle(self, event: Event) -> None:
        if isinstance(event, events.Exited) and event.task in self._state.tasks:
            self._read_progress(self._state.tasks[event.task])  # the last one
            seen = self._seen.get(event.task)
            event = replace(
                self._with_last_lines(event),
                model_step=seen.step if seen else None,
                killed_by=self._killed_by(event),
            )
        if isinstance(event, events.HostLost):
            # Whether the run needs the host depends on how far its programs have come.
            for entry in list(self._state.tasks.values()):
                self._read_progress(entry)
        # It changes nothing that a status shows but a silence.
        is_frequent = isinstance(event, events.Tick | events.Stepped | events.Slow)
        if not is_frequent:
            LOG.info("%s", events.brief(event))
        before, now = self._state, time.monotonic()
        self._state, actions = transition(before, event, now)
        self._events.append(
            event_records(before, event, self._state, actions, now), time.time(), now - self._began
        )
        shows = not is_frequent or bool(actions) or self._state.silence.text != before.silence.text
        self._status_stale = self._status_stale or shows
        for action in actions:
            LOG.info("-> %s", events.brief(action))
            if isinstance(action, events.Start):
                self._seen.pop(action.plan.task, None)
                self._printed.pop(action.plan.task, None)
                with suppress(OSError):
                    self.folder.progress(action.plan.task).unlink(missing_ok=True)
                self._transport.start(
                    action.plan, action.attempt, self.folder.log(action.plan.task, action.attempt)
                )
            elif isinstance(action, events.Signal):
                self._transport.signal(action.task, action.signal)
            elif isinstance(action, events.Move | events.Replace):
                self._plan_again(action)
            elif isinstance(action, events.Explain):
                threading.Thread(
                    target=self.inspection.post_explanation, name="explain", daemon=True
                ).start()
            elif isinstance(action, events.Look):
                threading.Thread(
                    target=self.inspection.look, args=(action,), name="look", daemon=True
                ).start()

    def _judge(self, readings: Sequence[Reading]) -> None:
        now, plan = time.monotonic(), self._state.plan
        for text in self._memory.take(readings, now):
            self._handle(events.Note(text))
        if plan is not None and plan.replace_slow is not None:
            slow = self._slow.take(readings, now, plan.replace_slow)
            if slow is not None:
                self._handle(slow)

    def _killed_by(self, event: events.Exited) -> str | None:
        entry = self._state.tasks[event.task]
        if entry.phase is TaskPhase.STOPPING:
            return None  # psclust sends the signals
        return self._memory.describe_death(
            str(event.task), entry.attempt, event.code, event.out_of_memory, time.monotonic()
        )

    def _with_last_lines(self, event: events.Exited) -> events.Exited:
        """The event of a task that failed by itself, with its last output, by which the rules judge
        the failure."""
        if event.code <= 0 or ended_by_signal(event.code) or self._state.phase is RunPhase.STOPPING:
            return event
        self._transport.drain(event.task, _DRAIN_FAILED_S)
        return replace(
            event, last_lines=tail(self._transport.output(event.task).tail, _FAILURE_LINES)
        )

    def _known(self) -> tuple[Evidence, Inspector]:
        evidence = Evidence(
            self._state,
            time.monotonic(),
            dict(self._seen),
            tails={task: self._transport.output(task).tail for task in self._state.tasks},
            printed={task: at for task, (_, at) in self._printed.items()},
            progress={task: found for task in self._state.tasks if (found := self._progress(task))},
        )
        return evidence, self._transport.inspector()

    def _progress(self, task: Task) -> Progress | None:
        """As its program last reported it."""
        try:
            return Progress.from_json(self._transport.progress(task) or "")
        except ValueError:
            return None

    def _refuse_lost(self, plan: Plan, joined: Sequence[str]) -> None:
        lost = set(self._state.given_up) - {*plan.lost, *joined}
        gone = {entry.host for entry in plan.tasks} & lost
        if gone:
            names = ", ".join(sorted(gone))
            raise UsageError(
                f"{names}: lost by this run, which goes on without. Leave it out of `hosts`; "
                "if it was lost just now, try again."
            )

    def _take_over(self, plan: Plan, *, save: bool = False, joined: tuple[str, ...] = ()) -> None:
        write_required(self.folder.plan, plan.to_json())
        self._handle(events.Apply(plan, save, joined))

    def _plan_again(self, action: events.Move | events.Replace) -> None:
        # Loads the planner and the reader of cluster files. A run on this machine alone, which
        # moves nothing, starts without them.
        from psclust.supervise.replan import impossible, plan_for

        old = self._state.plan
        assert old is not None
        try:
            plan, save = plan_for(action, self.folder, old, self._transport)
            self._take_over(plan, save=save)
        except PsclustError as error:
            self._handle(impossible(action, error))

    def _probe(self) -> None:
        """Probe the servers that have not answered yet, and read the progress of programs."""
        printed = False
        for entry in list(self._state.tasks.values()):
            if entry.awaited and self._transport.serving(entry.plan):
                self._handle(events.Serving(entry.plan.task))
            else:
                self._read_progress(entry)
            printed = self._has_printed(entry) or printed
        self._handle(events.Tick(printed))

    def _has_printed(self, entry: TaskState) -> bool:
        """Whether a program at work has printed something since the last call."""
        if entry.plan.role != "program" or entry.phase is not TaskPhase.RUNNING or entry.joined:
            return False
        size = self._transport.output(entry.plan.task).size
        if size == self._printed.get(entry.plan.task, (0, 0.0))[0]:
            return False
        self._printed[entry.plan.task] = size, time.monotonic()
        return True

    def _read_progress(self, entry: TaskState) -> None:
        if (
            entry.plan.role != "program"
            or entry.phase is not TaskPhase.RUNNING
            or entry.stage is Stage.FINISHED
        ):
            return
        progress = self._progress(entry.plan.task)
        if progress is None:
            return
        seen = self._seen.get(entry.plan.task)
        if seen is None or (seen.step, seen.phase) != (progress.step, progress.phase):
            self._seen[entry.plan.task] = Seen(progress.step, progress.phase, time.monotonic())
            if progress.step is not None and (seen is None or progress.step != seen.step):
                self._handle(events.Stepped(entry.plan.task if seen is not None else None))
            if progress.model is not None:
                self._memory.know_model(progress.model)
            if seen is None or progress.phase != seen.phase:
                self._handle(events.Progressed(entry.plan.task, progress))
        stage = _STAGES.get(progress.phase or "")
        if stage is not None and stage is not entry.stage:
            self._handle(events.Reported(entry.plan.task, stage))

    def _publish(self, *, final: bool = False) -> None:
        if not final and self._publishing.wait_s():
            return
        outputs = self._outputs()
        # Clients that follow the run show what found no room on disk.
        lost = {task: output.lost for task, output in outputs.items()}
        if not final and not self._status_stale and lost == self._lost:
            return
        if self._state.outcome is not None and self._state.outcome.cause is not None:
            self._transport.drain(self._state.outcome.cause, _DRAIN_S if final else 0)
            outputs = self._outputs()
        self._status_stale, self._lost = False, lost
        with self._publishing.working():
            status = snapshot(self._state, self.folder, self.name, outputs, time.monotonic())
            try:
                write_status(self.folder, status)
            except OSError as error:
                LOG.warning("status.json: %s", error.strerror)
        with self._changed:
            self._version += 1
            self._status = status
            self._changed.notify_all()

    def _outputs(self) -> dict[Task, Output]:
        return {task: self._transport.output(task) for task in self._state.tasks}
