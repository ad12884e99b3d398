"""A run that this process started and holds: it ends when this process does, unless it is
detached."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psclust.control.board_child import BoardCommand
from psclust.control.supervisor_process import SupervisorRequest, launch
from psclust.errors import NoRunError, PsclustError, StartError
from psclust.launch.board_request import board_command
from psclust.launch.host_agents import other_hosts
from psclust.launch.up_request import UpRequest
from psclust.plan.task_environment import library_environment
from psclust.plan.task_plan import TaskPlan
from psclust.reach.ways import batch_of
from psclust.rundir.folder import ClusterFolder, RunFolder
from psclust.rundir.status import RunStatus
from psclust.rundir.status_file import read_status, write_status
from psclust.spec.cluster import LOCALHOST, numeric
from psclust.spec.port_range import is_range
from psclust.transport.fork_server_client import Load
from psclust.transport.ports import port_holder

if TYPE_CHECKING:
    from psclust.control.supervisor_client import SupervisorClient

_START_S = 60.0  # for a supervisor to answer after the fork
_ANSWER_S = 1.0  # for one request to end the run
_PATIENCE_S = 10.0  # for a supervisor to take it, before it is killed
_GONE_S = 30.0  # for guard and supervisor to be gone after the run's end
_POLL_S = 0.02


@dataclass
class HeldRun:
    """`guard`: the pid of the run's guard, a child of this process. `interrupts`: how often the
    user has asked to stop. `board`: its TensorBoard. `killed`: whether the supervisor had to be
    killed."""

    client: SupervisorClient
    folder: RunFolder
    guard: int
    interrupts: Callable[[], int]
    board: BoardCommand | None = None
    killed: bool = False
    _asked: float | None = None  # since when it has been asked to end without an answer
    _reason: tuple[str, int] | None = None  # of the last request to end, with its exit code

    def wait_for_supervisor(self) -> None:
        """Raises NoRunError where it does not answer."""
        if not self.client.wait_until_answering(_START_S, self._is_guard_alive):
            raise NoRunError("the supervisor does not answer")

    def ask_to_end(self, reason: str, exit_code: int, *, now: bool) -> bool:
        """Whether the supervisor has taken the request. If it does not answer for ten seconds, or
        at once with `now`, it is killed with everything it has started."""
        self._asked = self._asked or time.monotonic()
        self._reason = reason, exit_code
        try:
            self.client.stop(reason, exit_code=exit_code, now=now, timeout_s=_ANSWER_S)
        except NoRunError:
            if now or time.monotonic() - self._asked > _PATIENCE_S:
                self._kill()
            return self.killed
        self._asked = None
        return True

    def ask_to_save(self, reason: str, exit_code: int) -> bool:
        """Have the programs save their work, and end the run then; whether the supervisor has taken
        the request."""
        try:
            self.client.stop(reason, exit_code=exit_code, save=True, timeout_s=_ANSWER_S)
        except NoRunError:
            return False
        return True

    def end(self, reason: str, exit_code: int) -> None:
        """End the run, and wait until nothing of it is alive. The user's second interrupt cuts the
        wait short."""
        with suppress(PsclustError):
            while (
                not self.ask_to_end(reason, exit_code, now=self.interrupts() > 1)
                and self.is_alive()
            ):
                time.sleep(_POLL_S)
        self.wait()

    @contextmanager
    def ended_on_failure(self) -> Iterator[None]:
        """End the run if the block fails. A supervisor that is gone becomes a StartError with its
        last words; an interrupt is left to the caller."""
        try:
            yield
        except KeyboardInterrupt:
            raise
        except NoRunError:
            self.end("the supervisor did not answer", StartError.exit_code)
            raise StartError(
                f"{read_status(self.folder).text}. Its log: {self.folder.supervisor_log}"
            ) from None
        except BaseException:
            self.end("the cluster could not be started", StartError.exit_code)
            raise

    def is_alive(self) -> bool:
        cluster = ClusterFolder(self.folder.path.parent)
        current = cluster.current()
        return current is not None and current.id == self.folder.id and cluster.is_locked()

    def wait(self) -> None:
        """Until guard and supervisor, the last processes of the run, are gone."""
        with suppress(ChildProcessError):
            os.waitpid(self.guard, 0)
        # A guard that was killed leaves its work to the supervisor.
        deadline = time.monotonic() + _GONE_S
        while self.is_alive():
            if time.monotonic() > deadline:
                self._kill()
                return
            time.sleep(_POLL_S)

    def final_status(self, status: RunStatus | None) -> RunStatus:
        """How the run ended: `status`, the supervisor's last, else what the guard recorded;
        recorded here where the supervisor was killed because it did not take a request to end."""
        if not self.killed or self._reason is None:
            return status if status is not None and status.ended else read_status(self.folder)
        reason, exit_code = self._reason
        text = (
            f"{reason}; the supervisor did not answer, "
            "so it and everything that it had started was killed"
        )
        final = replace(read_status(self.folder), exit_code=exit_code, text=text)
        with suppress(OSError):
            write_status(self.folder, final)
        return final

    def _is_guard_alive(self) -> bool:
        return os.waitid(os.P_PID, self.guard, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def _kill(self) -> None:
        from psclust.control.forced_stop import force_stop

        self.killed = True
        force_stop(self.folder, _GONE_S)


def _slowest_load(tasks: Iterable[TaskPlan]) -> tuple[str, Load, Mapping[str, str]] | None:
    """The fork server of one of these tasks: interpreter, preload and environment. Other fork
    servers start with their tasks: each takes a core while it loads."""
    loads = [(task.argv[0], task.preload, task.env) for task in tasks if task.preload]
    return min(loads, key=lambda load: load[1] == "library", default=None)


@contextmanager
def hold_run(
    request: UpRequest,
    folder: RunFolder,
    lock: int,
    interrupts: Callable[[], int],
) -> Iterator[HeldRun]:
    """Fork the run's supervisor, which begins to load what tasks here are forked from. `lock`: of
    `ClusterFolder.lock`, closed here. This process must have a single thread. Raises StartError
    where there can be no more processes, or the port for metrics is taken."""
    warm = None if other_hosts(request.file) else _slowest_load(request.first_tasks.values())
    # Whatever becomes of this process, the kernel closes the pipe, and the supervisor ends the run.
    lease, held = os.pipe()
    environ, library = request.launcher.environ, library_environment(request.launcher)
    try:
        ports = request.file.ports if is_range(request.file.ports) else "auto"
        job_ports = ports if batch_of(request.file.reach_by) else None
        board = board_command(request, folder)
        with listen_for_metrics(request.file.metrics) as metrics:
            wanted = SupervisorRequest(
                folder,
                request.cluster.name,
                environ,
                library,
                warm,
                lock,
                lease,
                job_ports,
                metrics,
                board,
            )
            guard = launch(wanted, close=(held,))
    except OSError as error:
        hint = "Perhaps the limit of processes (ulimit -u) or the memory is used up."
        raise StartError(f"no process could be started: {error.strerror}. {hint}") from None
    finally:
        os.close(lock)
        os.close(lease)
    try:
        # gRPC must not be at work in a process that forks.
        from psclust.control.supervisor_client import SupervisorClient

        with SupervisorClient(folder) as client:
            yield HeldRun(client, folder, guard, interrupts, board)
    finally:
        os.close(held)


@contextmanager
def listen_for_metrics(place: str | None) -> Iterator[int | None]:
    """The file descriptor of a socket that listens at `place` ([address:]port), open within the
    block; None without a place. Raises StartError."""
    if place is None:
        yield None
        return
    host, _, port = place.rpartition(":")
    address = numeric(host or LOCALHOST.name), int(port)
    try:
        listener = socket.create_server(address)
    except OSError as error:
        shown = f"metrics: {address[0]}:{port}"
        if error.errno == errno.EADDRINUSE:
            holder = port_holder(int(port))
            by = f" by {holder}" if holder else ""
            raise StartError(
                f"{shown} is already in use{by}. Stop that process, "
                "or choose another port (--metrics)."
            ) from None
        raise StartError(
            f"{shown}: cannot listen there ({error.strerror}). "
            "Name a free port and an address of this machine."
        ) from None
    with listener:
        yield listener.fileno()
