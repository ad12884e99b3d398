"""The heart of an agent: the processes of one run on one host. It starts and ends what it is told to, and keeps a lease: when nobody has
renewed it, everything is stopped and the agent leaves. What to start, restart or end is decided elsewhere, where all hosts are in view."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from psclust.agent.event_log import EventLog
from psclust.agent.lease import AgentLease, clock, patience
from psclust.errors import PsclustError
from psclust.plan.task_plan import TaskPlan
from psclust.rundir.folder import RunFolder
from psclust.spec.cluster import Task
from psclust.supervise import events
from psclust.supervise.mailbox import Mailbox
from psclust.transport.api import Output
from psclust.transport.local_transport import LocalTransport

LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

_PROBE_S = 0.02  # while a server has been started and does not answer yet; many hosts may be one machine
_IDLE_S = 0.25
_READ_S = 0.5  # for renewals that wait in the socket: the agent may have stood still


_SILENT = "the launcher has not been heard for the time of its lease"


class LeavingError(PsclustError):
    """No order is carried out any more: all tasks end."""


@dataclass
class _Running:
    plan: TaskPlan
    attempt: int
    alive: bool = True
    begun: bool = False
    serving: bool = False

    @property
    def awaited(self) -> bool:
        """Whether it is a server, a bare one or a ps script, that has a process and has not answered yet."""
        serves = self.plan.role == "server" and self.plan.address is not None
        return self.begun and self.alive and serves and not self.serving


class Agent:
    """Owns a host's tasks. They are touched on the thread of `run` only; other threads `call`. grace_s: between TERM and KILL."""

    def __init__(self, folder: RunFolder, lease_s: float, grace_s: float) -> None:
        self.folder = folder
        self.event_log = EventLog()
        self._lease = AgentLease(clock() + patience(lease_s), grace_s)
        self._renewed = threading.Condition()  # guards `_lease`
        self._mailbox: Mailbox[None] = Mailbox()
        self._tasks: dict[Task, _Running] = {}
        self._attempts: set[tuple[Task, int]] = set()
        self._leaving: str | None = None
        self.ended = threading.Event()
        self._transport: LocalTransport

    # ---- from any thread

    def started(self, task: Task, pid: int) -> None:
        self.event_log.add(events.Started(task, pid))
        self._mailbox.soon(lambda: self._begun(task))

    def not_started(self, task: Task, reason: str) -> None:
        self._ended(task)
        self.event_log.add(events.NotStarted(task, reason))

    def exited(self, task: Task, code: int) -> None:
        self._ended(task)
        self.event_log.add(events.Exited(task, code))

    def soon(self, work: Callable[[], None]) -> None:
        self._mailbox.soon(work)

    def children_changed(self) -> None:
        """A signal handler may call this."""
        self._mailbox.wake()

    def renew(self, until: float) -> float:
        """`until`: on this machine's `lease.clock`, which is returned. Raises LeavingError."""
        with self._renewed:
            if self._leaving is not None:
                raise LeavingError(self._leaving)
            self._lease.renew(until)
            self._renewed.notify_all()
        return clock()

    @property
    def leaving(self) -> str | None:
        """Why, from the moment on when it is certain that all will be ended."""
        return self._leaving

    def leave(self, reason: str) -> None:
        """End everything and return from `run`; `ended` is set when nothing is alive."""
        self._leaving = self._leaving or reason
        self._mailbox.wake()

    def call(self, work: Callable[[LocalTransport], _T]) -> _T:
        """Has `work` done on the thread of `run`; returns its result or raises its error. LeavingError where the lease is over, which is
        looked at first: after a standstill, orders may wait that were given before all was started elsewhere."""

        def leased() -> _T:
            self._look_at_lease()
            if self._leaving is not None:
                raise LeavingError(self._leaving)
            return work(self._transport)

        return self._mailbox.call(leased)

    def attempts(self) -> list[tuple[Task, int]]:
        """All that have been started so far."""
        return sorted(self._attempts)

    # ---- what calls do

    def start(self, plan: TaskPlan, attempt: int) -> None:
        def work(transport: LocalTransport) -> None:
            if (plan.task, attempt) in self._attempts:
                return
            self._attempts.add((plan.task, attempt))
            self._tasks[plan.task] = _Running(plan, attempt)
            self.folder.progress(plan.task).unlink(missing_ok=True)
            transport.start(plan, attempt, self.folder.log(plan.task, attempt))

        self.call(work)

    def signal(self, task: Task, number: Literal["TERM", "KILL"]) -> None:
        self.call(lambda transport: transport.signal(task, number))

    def drain(self, task: Task, timeout: float) -> None:
        """Waits until all of the task's output is in its log."""
        self._transport.drain(task, timeout)

    def output(self, task: Task) -> Output:
        """Of the latest attempt."""
        return self._transport.output(task)

    # ---- the agent's own thread

    def run(self, transport: LocalTransport) -> None:
        """Until told to leave, or until the lease has run out; then nothing is alive."""
        self._transport = transport
        while self._leaving is None:
            self._turn()
            self._look_at_lease()
        LOG.info("leaving: %s", self._leaving)
        self._stop_all()
        self.ended.set()

    def _look_at_lease(self) -> None:
        with self._renewed:
            if self._leaving is not None or self._renewed.wait_for(self._is_held, 0 if self._is_held() else _READ_S):
                return
            self._leaving = _SILENT

    def _is_held(self) -> bool:
        return not self._lease.is_over(clock())

    def _turn(self) -> None:
        waiting = any(entry.awaited and entry.plan.serves for entry in self._tasks.values())
        self._mailbox.take(_PROBE_S if waiting else _IDLE_S, self._transport.reap)
        for entry in self._tasks.values():
            if entry.awaited and self._transport.serving(entry.plan):
                entry.serving = True
                self.event_log.add(events.Serving(entry.plan.task))

    def _stop_all(self) -> None:
        # The launcher counts on it that all have ended when lease and grace are over, however late this process has noticed.
        kill_at = self._lease.kill_at if self._leaving == _SILENT else clock() + self._lease.grace_s
        signals: tuple[Literal["TERM", "KILL"], ...] = ("TERM", "KILL")
        for number in signals:
            for task, entry in self._tasks.items():
                if entry.alive:
                    self._transport.signal(task, number)
            end = kill_at if number == "TERM" else clock() + self._lease.grace_s
            while any(entry.alive for entry in self._tasks.values()) and clock() < end:
                self._turn()

    def _begun(self, task: Task) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            entry.begun = True

    def _ended(self, task: Task) -> None:
        entry = self._tasks.get(task)
        if entry is not None:
            entry.alive = False
