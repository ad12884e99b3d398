"""The processes of tasks on this machine, from the request to a fork server to the exit code. Fork
servers fork them, but this process, a subreaper, becomes their parent and waits for them itself: a
fork server may die without any effect on its tasks."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path

from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.transport.api import Listener
from psclust.transport.host_memory import MemoryKills


@dataclass(eq=False)
class StartInFlight:
    """One attempt that no fork server has answered yet."""

    plan: TaskPlan
    attempt: int
    log: Path
    tries_left: int
    cancelled: bool = False


class TaskProcesses:
    """Reports starts and exits to a listener. Fork servers answer on threads of their own, and a
    process may have been reaped before its fork server reports its pid."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._starts: dict[Task, StartInFlight] = {}
        self._kills = MemoryKills()
        self._unanswered = 0  # starts in flight, cancelled ones included
        self._pids: dict[int, Task] = {}
        self._unclaimed: dict[
            int, tuple[int, str | None]
        ] = {}  # exit codes, and evidence, of processes that may be those of starts in flight

    def begin(self, start: StartInFlight) -> None:
        with self._lock:
            self._starts[start.plan.task] = start
            self._unanswered += 1

    def started(self, start: StartInFlight, pid: int) -> None:
        """A fork server has made the process."""
        with self._lock:
            end = self._unclaimed.pop(pid, None)
            self._answered(start)
            if start.cancelled:
                if end is None:
                    _signal_group(pid, signal.SIGKILL)
                return
            if end is None:
                self._pids[pid] = start.plan.task
            self._listener.started(start.plan.task, pid)
        if end is not None:
            self._listener.exited(start.plan.task, *end)

    def failed(self, start: StartInFlight, reason: str) -> None:
        """The start has no process. Not reported if it was cancelled."""
        with self._lock:
            self._answered(start)
        if not start.cancelled:
            self._listener.not_started(start.plan.task, reason)

    def signal(self, task: Task, number: int) -> None:
        """Signal the task's process group; cancel its start if that is still in flight, as while
        its fork server loads."""
        with self._lock:
            start = self._starts.pop(task, None)
            if start is not None:
                start.cancelled = True
            for pid in [pid for pid, owner in self._pids.items() if owner == task]:
                _signal_group(pid, number)
        if start is not None:
            self._listener.not_started(task, "stopped before it started")

    def reap(self) -> dict[int, int]:
        """Collect every child that has ended; pid -> exit code (Python's) of those that are not
        known to be a task's."""
        others = {}
        while (pid := _ended_child()) is not None:
            with self._lock:
                task = self._pids.pop(pid, None)
                if task is not None:
                    # Before the wait: while the leader is a zombie, its pid cannot belong to
                    # another group.
                    _signal_group(pid, signal.SIGKILL)
                try:
                    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                except ChildProcessError:  # a thread that ran it (nvidia-smi, py-spy) was sooner
                    continue
                evidence = self._kills.evidence(pid, code)
                if task is None and self._unanswered:
                    self._unclaimed[pid] = code, evidence
            if task is not None:
                self._listener.exited(task, code, evidence)
            else:
                others[pid] = code
        return others

    def _answered(self, start: StartInFlight) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._unclaimed.clear()
        if self._starts.get(start.plan.task) is start:
            del self._starts[start.plan.task]


def _ended_child() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None


def _signal_group(pid: int, number: int) -> None:
    """Signal the group, or the process alone in the moment before it leads a group."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
    except PermissionError:
        return
