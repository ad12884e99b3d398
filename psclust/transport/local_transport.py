"""Tasks as processes of this machine. They are forked by fork servers but re-parented to this process (a subreaper), which therefore
waits for them itself: a fork server may die and no task notices."""

from __future__ import annotations

import os
import signal as signals
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psclust.plan.port_request import PortRequest
from psclust.plan.task_environment import is_foreign
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.preload_limits import is_read
from psclust.transport.api import Listener, Output
from psclust.transport.fork_server_client import ForkServer, Load, StartRequest
from psclust.transport.log_pump import LogPump, _Sink
from psclust.transport.open_files import explain_shortage, raise_limit
from psclust.transport.ports import PortReservations

# A fork server that was killed is replaced this often for one start.
_TRIES = 2
_LAST_OUTPUT_S = 1.0


@dataclass
class _Start:
    """A task's way to a process."""

    cancelled: bool = False


class LocalTransport:
    """`environ` is the environment tasks inherit; `library_env` what fork servers get on top of it; `log` where they complain. This process
    opens as many files as it may; its tasks get the limits it had before."""

    def __init__(self, listener: Listener, environ: Mapping[str, str], library_env: Mapping[str, str], log: int) -> None:
        self._listener = listener
        self._open_files = raise_limit()
        self._environ = {name: value for name, value in environ.items() if not is_foreign(name)}
        self._library_env = dict(library_env)
        self._log = log
        self._ports = PortReservations()
        self._pump = LogPump()
        self._fork_servers: dict[tuple[str, Load, frozenset[tuple[str, str]]], ForkServer] = {}
        self._sinks: dict[Task, _Sink] = {}
        self._lock = threading.Lock()  # guards what fork server threads and the reaper share
        self._pids: dict[int, Task] = {}
        self._starts: dict[Task, _Start] = {}  # that no fork server has answered yet
        self._pending = 0
        self._early: dict[int, int] = {}  # exits seen before the fork server's reply

    def warm(self, python: str, load: Load, env: Mapping[str, str]) -> None:
        """Begin to load what tasks with this environment are forked from, so that the first start need not wait."""
        self._fork_server(python, load, env)

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        return self._ports.reserve(requests)

    def release(self, task: Task) -> None:
        self._ports.release(task)

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        start = self._starts[plan.task] = _Start()
        self._attempt(plan, attempt, log, _TRIES, start)

    def signal(self, task: Task, signal: Literal["TERM", "KILL"]) -> None:
        """A task that its fork server has not started yet, because it is still loading perhaps, never will be."""
        number = signals.SIGTERM if signal == "TERM" else signals.SIGKILL
        with self._lock:
            start = self._starts.pop(task, None)
            if start is not None:
                start.cancelled = True
            for pid in [pid for pid, owner in self._pids.items() if owner == task]:
                _signal_group(pid, number)
        if start is not None:
            self._listener.not_started(task, "it was to end before it had begun")

    def output(self, task: Task) -> Output:
        sink = self._sinks.get(task)
        return sink.output if sink else Output()

    def serving(self, plan: TaskPlan) -> bool:
        """Whether the task's port accepts a connection."""
        host, _, port = (plan.address or "").rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=0.2):
                return True
        except OSError:
            return False

    def drain(self, task: Task, timeout: float) -> None:
        """Wait until all of the task's output is in its log; a process that left the group may hold the pipe, hence the timeout."""
        if task in self._sinks:
            self._sinks[task].ended.wait(timeout)

    def close(self) -> None:
        for server in self._fork_servers.values():
            server.close()
        self._pump.close()
        self._ports.close()

    def reap(self) -> None:
        """Take note of every child that has ended. Call when SIGCHLD came. The group goes with its leader, while the leader's pid cannot
        have been given to anybody else."""
        while (pid := _ended_child()) is not None:
            with self._lock:
                task = self._pids.get(pid)
                if task is not None:
                    _signal_group(pid, signals.SIGKILL)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                if task is None:
                    if self._pending:
                        self._early[pid] = code
                    for server in self._fork_servers.values():
                        server.note_end(pid, code)
                    continue
                del self._pids[pid]
            self._listener.exited(task, code)

    def _attempt(self, plan: TaskPlan, attempt: int, log: Path, tries: int, start: _Start) -> None:
        """Every way in which this process cannot do it is news for the listener: files, threads, processes run out."""
        if start.cancelled:
            return
        try:
            self._ask(plan, attempt, log, tries, start)
        except (OSError, RuntimeError) as error:
            self._starts.pop(plan.task, None)
            self._listener.not_started(plan.task, explain_shortage(error))

    def _ask(self, plan: TaskPlan, attempt: int, log: Path, tries: int, start: _Start) -> None:
        server = self._fork_server(plan.argv[0] if plan.preload else _own_python(), plan.preload or "nothing", plan.env)
        output, sink = self._pump.add(log)
        self._sinks[plan.task] = sink
        with self._lock:
            self._pending += 1

        def done(pid: int | None, reason: str) -> None:
            if pid is None and tries > 1 and server.killed and not start.cancelled:
                with self._lock:
                    self._pending -= 1
                self._listener.soon(lambda: self._attempt(plan, attempt, log, tries - 1, start))
            else:
                self._report(plan.task, start, pid, reason)

        env = {**self._environ, **plan.env, "PSCLUST_ATTEMPT": str(attempt)}
        server.start(StartRequest((_at_home(plan.argv[0]), *plan.argv[1:]), env, plan.cwd, plan.recovery_wait_s, output, done))

    def _report(self, task: Task, start: _Start, pid: int | None, reason: str) -> None:
        with self._lock:
            self._pending -= 1
            code = self._early.pop(pid, None) if pid is not None else None
            if not self._pending:
                self._early.clear()
            if pid is not None and code is None:
                if start.cancelled:
                    _signal_group(pid, signals.SIGKILL)
                else:
                    self._pids[pid] = task
            if start.cancelled:
                return
            self._starts.pop(task, None)
        if pid is None:
            self._listener.not_started(task, reason)
            return
        self._listener.started(task, pid)
        if code is not None:
            self._listener.exited(task, code)

    def _fork_server(self, python: str, load: Load, env: Mapping[str, str]) -> ForkServer:
        """One for every interpreter, kind and environment that it reads while it loads."""
        python = _at_home(python)
        common = {**self._environ, **self._library_env}
        own = {name: value for name, value in env.items() if common.get(name) != value and _is_read(name, python, load)}
        key = (python, load, frozenset(own.items()))
        with self._lock:
            server = self._fork_servers.get(key)
            if server is None or server.failed:
                output, sink = self._pump.add(self._log)
                try:
                    server = ForkServer(python, load, {**common, **own}, output, lambda: _whole(sink), self._open_files)
                finally:
                    os.close(output)
                self._fork_servers[key] = server
            return server


def _is_read(name: str, python: str, load: Load) -> bool:
    return load != "nothing" and (is_read(name, load) or (name == "PATH" and "/" not in python))


def _whole(sink: _Sink) -> bytes:
    sink.ended.wait(_LAST_OUTPUT_S)
    return sink.output.tail


def _at_home(program: str) -> str:
    """A home is that of this machine, and no shell looks at it."""
    return os.path.expanduser(program)


def _own_python() -> str:
    import sys

    return sys.executable


def _ended_child() -> int | None:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found.si_pid if found is not None else None


def _signal_group(pid: int, number: int) -> None:
    """To the group, or to the process alone in the moment before it has a group of its own."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
    except PermissionError:
        return
