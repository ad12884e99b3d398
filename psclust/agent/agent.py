"""An agent's state: the tasks of one run on one host, and the lease under which they run. It starts
and ends tasks on request; the supervisor, which knows all hosts, decides what to start, restart or
end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from psclust.agent import agent_pb2 as pb
from psclust.agent.event_log import EventLog
from psclust.agent.lease import AgentLease, clock, granted_s
from psclust.agent.records import task_id
from psclust.errors import PsclustError
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.supervise.mailbox import Mailbox
from psclust.transport.api import Output, SignalName
from psclust.transport.local_transport import LocalTransport

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# While a server does not answer yet; longer than the supervisor's, as many hosts may be one
# machine.
_PROBE_S = 0.02
_IDLE_S = 0.25
_READ_S = 0.5  # to read renewals that arrived while this process was suspended
_TELL_S = 2.0  # for the supervisor to learn that the last task has left
_LEASE_OVER = "the supervisor has not renewed its lease"


class StoppingError(PsclustError):
    """The agent is stopping and carries out no request any more."""


@dataclass
class _Running:
    plan: TaskPlan
    alive: bool = True
    started: bool = False
    serving: bool = False

    @property
    def awaited(self) -> bool:
        """Whether it is a server (bare, or a ps script) that runs but has not accepted a connection
        yet."""
        return self.started and self.alive and self.plan.listens and not self.serving


class Agent:
    """Owns a host's tasks, and touches them only on the thread of `run`; other threads use `call`.
    grace_s: between TERM and KILL. leave_s: for the supervisor to have tasks leave a host that is
    about to go; 0: they cannot. stopping: why all tasks will be ended, once that is certain."""

    def __init__(
        self, folder: RunFolder, lease_s: float, grace_s: float, leave_s: float = 0.0
    ) -> None:
        self.folder = folder
        self.event_log = EventLog()
        self.stopped = threading.Event()
        self._lease = AgentLease(clock() + granted_s(lease_s), grace_s)
        self._renewed = threading.Condition()  # guards `_lease`
        self._mailbox: Mailbox[None] = Mailbox()
        self._tasks: dict[Task, _Running] = {}
        self._attempts: set[tuple[Task, int]] = set()
        self._summaries: set[str] = set()
        self.stopping: str | None = None
        self._leave_s = leave_s
        self._leaving: tuple[str, float] | None = None  # why, and until when on `clock`
        self._left: float | None = None  # when its last task did
        self._watchers = 0
        self._transport: LocalTransport

    # ---- from any thread

    def started(self, task: Task, pid: int) -> None:
        self.event_log.add(pb.Event(task=task_id(task), started=pid))
        self._mailbox.soon(lambda: self._mark_started(task))

    def not_started(self, task: Task, reason: str) -> None:
        self._mark_ended(task)
        self.event_log.add(pb.Event(task=task_id(task), not_started=reason))

    def exited(self, task: Task, code: int, out_of_memory: str | None = None) -> None:
        self._mark_ended(task)
        self.event_log.add(pb.Event(task=task_id(task), exited=code, out_of_memory=out_of_memory))

    def soon(self, work: Callable[[], None]) -> None:
        self._mailbox.soon(work)

    def children_changed(self) -> None:
        """A signal handler may call this."""
        self._mailbox.wake()

    def renew(self, until: float) -> float:
        """Extend the lease to `until` on this machine's `lease.clock`; returns that clock. Raises
        StoppingError."""
        with self._renewed:
            if self.stopping is not None:
                raise StoppingError(self.stopping)
            self._lease.renew(until)
            self._renewed.notify_all()
        return clock()

    def stop(self, reason: str) -> None:
        """End all tasks and return from `run`; `stopped` is set when no task is alive."""
        self.stopping = self.stopping or reason
        self._mailbox.wake()

    @property
    def leaving(self) -> str | None:
        """Why its tasks are to leave this host, once they are."""
        return self._leaving[0] if self._leaving is not None else None

    def leave(self, reason: str) -> None:
        """`stop`, but let the supervisor move the tasks first if it can. A signal handler may call
        this; at the second call it stops."""
        if self._leave_s and self._watchers and self._leaving is None:
            self._leaving = reason, clock() + self._leave_s
            self._mailbox.wake()
        else:
            self.stop(reason)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While a supervisor receives updates."""
        with self._renewed:
            self._watchers += 1
        try:
            yield
        finally:
            with self._renewed:
                self._watchers -= 1

    def call(self, work: Callable[[LocalTransport], _T]) -> _T:
        """Run `work` on the thread of `run`; returns its result or raises its error. Checks the
        lease first and raises StoppingError if it is over: requests that waited while this process
        was suspended are void, as their tasks may run elsewhere by now."""

        def leased() -> _T:
            self._check_lease()
            if self.stopping is not None:
                raise StoppingError(self.stopping)
            return work(self._transport)

        return self._mailbox.call(leased)

    def start(self, plan: TaskPlan, attempt: int) -> None:
        def work(transport: LocalTransport) -> None:
            if (plan.task, attempt) in self._attempts:
                return
            self._attempts.add((plan.task, attempt))
            self._tasks[plan.task] = _Running(plan)
            self._summaries |= {plan.summaries} if plan.summaries is not None else set()
            self.folder.progress(plan.task).unlink(missing_ok=True)
            transport.start(plan, attempt, self.folder.log(plan.task, attempt))

        self.call(work)

    def signal(self, task: Task, number: SignalName) -> None:
        self.call(lambda transport: transport.signal(task, number))

    def attempts(self) -> list[tuple[Task, int]]:
        """All attempts started so far."""
        return sorted(self._attempts)

    def summary_folders(self) -> list[str]:
        """The folders whose event files TensorBoard shows."""
        return sorted(self._summaries)

    def drain(self, task: Task, timeout_s: float) -> None:
        """Wait until the task's output is in its log."""
        self._transport.drain(task, timeout_s)

    def output(self, task: Task) -> Output:
        """Of the latest attempt."""
        return self._transport.output(task)

    # ---- the agent's own thread

    def run(self, transport: LocalTransport) -> None:
        """Until `stop` is called or the lease is over; then no task is alive."""
        self._transport = transport
        while self.stopping is None:
            self._turn()
            self._check_lease()
            self._check_leaving()
        LOG.info("stopping: %s", self.stopping)
        self._end_all()
        self._mailbox.close(StoppingError(self.stopping))
        self.stopped.set()

    def _check_lease(self) -> None:
        with self._renewed:
            if self.stopping is not None or self._renewed.wait_for(
                self._is_leased, 0 if self._is_leased() else _READ_S
            ):
                return
            self.stopping = _LEASE_OVER

    def _check_leaving(self) -> None:
        if self._leaving is None or self.stopping is not None:
            return
        reason, until = self._leaving
        alive = any(entry.alive for entry in self._tasks.values())
        self._left = None if alive else self._left or clock()
        told = self._left is not None and clock() > self._left + _TELL_S
        if told or clock() > until:
            self.stopping = reason

    def _is_leased(self) -> bool:
        return not self._lease.is_over(clock())

    def _turn(self) -> None:
        waiting = any(entry.awaited and entry.plan.serves for entry in self._tasks.values())
        self._mailbox.take(_PROBE_S if waiting else _IDLE_S, self._transport.reap)
        for entry in self._tasks.values():
            if entry.awaited and self._transport.serving(entry.plan):
                entry.serving = True
                self.event_log.add(pb.Event(task=task_id(entry.plan.task), serving=True))

    def _end_all(self) -> None:
        signals: tuple[SignalName, ...] = ("TERM", "KILL")
        for number in signals:
            for task, entry in self._tasks.items():
                if entry.alive:
                    self._transport.signal(task, number)
            end = (
                self._lease.kill_at(clock()) if number == "TERM" else clock() + self._lease.grace_s
            )
            while any(entry.alive for entry in self._tasks.values()) and clock() < end:
                self._turn()

    def _mark_started(self, task: Task) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            entry.started = True

    def _mark_ended(self, task: Task) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            entry.alive = False
