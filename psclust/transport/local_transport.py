"""Tasks as processes of this machine, forked by fork servers."""

from __future__ import annotations

import os
import signal as signals
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from psclust.plan.port_request import PortRequest
from psclust.plan.task_environment import inherited
from psclust.plan.task_plan import TaskPlan
from psclust.spec.cluster import Task
from psclust.spec.preload_limits import is_read
from psclust.transport.api import Listener, Output, SignalName
from psclust.transport.fork_server_client import ForkServer, Load, StartFailure
from psclust.transport.log_pump import LogPump, Sink
from psclust.transport.open_files import explain_shortage, raise_limit
from psclust.transport.ports import PortReservations
from psclust.transport.process_facts import accepts
from psclust.transport.server_shim import server_shim
from psclust.transport.task_processes import StartInFlight, TaskProcesses

_TRIES = 2  # for a start whose fork server is killed
_LAST_OUTPUT_S = 1.0


class LocalTransport:
    """environ: inherited by tasks and fork servers. library_env: for fork servers alone. log: the
    file descriptor that fork servers write to. of_host: what psclust itself tells all tasks of this
    host. Raises this process's limit of open files; its tasks get the limits it had before. Called
    on one thread, as every Transport."""

    def __init__(
        self,
        listener: Listener,
        environ: Mapping[str, str],
        library_env: Mapping[str, str],
        log: int,
        of_host: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._listener = listener
        self._open_files = raise_limit()
        self._environ = {**inherited(environ), **of_host}
        self._library_env = dict(library_env)
        self._log = log
        self._ports = PortReservations(shim=server_shim() is not None)
        self._pump = LogPump()
        self._fork_servers: dict[tuple[str, Load, frozenset[tuple[str, str]]], ForkServer] = {}
        self._sinks: dict[Task, Sink] = {}
        self._processes = TaskProcesses(listener)

    def warm(self, python: str, load: Load, env: Mapping[str, str]) -> None:
        """Begin to load the fork server of tasks with this environment, so that the first start
        need not wait for it."""
        self._fork_server(python, load, env)

    def reserve(self, requests: Sequence[PortRequest]) -> dict[Task, int]:
        return self._ports.reserve(requests)

    def start(self, plan: TaskPlan, attempt: int, log: Path) -> None:
        start = StartInFlight(plan, attempt, log, _TRIES)
        self._processes.begin(start)
        self._try(start)

    def signal(self, task: Task, signal: SignalName) -> None:
        self._processes.signal(task, signals.Signals[f"SIG{signal}"])

    def output(self, task: Task) -> Output:
        sink = self._sinks.get(task)
        return sink.output if sink else Output()

    def drain(self, task: Task, timeout_s: float) -> None:
        """A process that has left the task's group may keep the pipe open, hence the timeout."""
        if task in self._sinks:
            self._sinks[task].ended.wait(timeout_s)

    def serving(self, plan: TaskPlan) -> bool:
        return accepts(plan.address or "", timeout_s=0.2)

    def reap(self) -> None:
        for pid, code in self._processes.reap().items():
            for server in self._fork_servers.values():
                server.note_end(pid, code)

    def close(self) -> None:
        """Free the ports and end the fork servers. No task may be alive any more."""
        for server in self._fork_servers.values():
            server.close()
        self._pump.close()
        self._ports.close()

    def _try(self, start: StartInFlight) -> None:
        if start.cancelled:
            self._processes.failed(start, "")
            return
        start.tries_left -= 1
        try:
            self._ask(start)
        except (OSError, RuntimeError) as error:  # files, processes or threads have run out
            self._processes.failed(start, explain_shortage(error))

    def _ask(self, start: StartInFlight) -> None:
        plan = start.plan
        server = self._fork_server(
            plan.argv[0] if plan.preload else sys.executable, plan.preload or "nothing", plan.env
        )
        output, self._sinks[plan.task] = self._pump.add(start.log)

        def done(answer: int | StartFailure) -> None:
            if isinstance(answer, int):
                self._processes.started(start, answer)
            elif answer.retry and start.tries_left and not start.cancelled:
                self._listener.soon(lambda: self._try(start))
            else:
                self._processes.failed(start, answer.reason)

        message = {
            "argv": (_expand_home(plan.argv[0]), *plan.argv[1:]),
            "env": {**self._environ, **plan.env, "PSCLUST_ATTEMPT": str(start.attempt)},
            "cwd": plan.cwd,
            "supervisor": os.getpid(),
            "recovery_wait_s": plan.recovery_wait_s,
        }
        server.start(message, output, done)

    def _fork_server(self, python: str, load: Load, env: Mapping[str, str]) -> ForkServer:
        """One for each interpreter, kind of preload, and set of variables that are read while it
        loads."""
        python = _expand_home(python)
        common = {**self._environ, **self._library_env}
        own = {
            name: value
            for name, value in env.items()
            if common.get(name) != value and _is_read(name, python, load)
        }
        key = (python, load, frozenset(own.items()))
        server = self._fork_servers.get(key)
        if server is None or server.failed:
            output, sink = self._pump.add(self._log)
            try:
                server = ForkServer(
                    python,
                    load,
                    {**common, **own},
                    output,
                    lambda: _whole_output(sink),
                    self._open_files,
                )
            finally:
                os.close(output)
            self._fork_servers[key] = server
        return server


def _is_read(name: str, python: str, load: Load) -> bool:
    return load != "nothing" and (is_read(name, load) or (name == "PATH" and "/" not in python))


def _whole_output(sink: Sink) -> bytes:
    sink.ended.wait(_LAST_OUTPUT_S)
    return sink.output.tail


def _expand_home(program: str) -> str:
    """`~` means the home on this machine; no shell expands it."""
    return os.path.expanduser(program)
