"""The process of a run's supervisor: forked by `up`, under a guard, it serves RPCs and supervises
until the run has ended."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psclust.agent import guard
from psclust.control.board_child import BoardCommand, start_board
from psclust.errors import PsclustError
from psclust.failed_threads import end_when_threads_fail
from psclust.rundir.folder import RunFolder
from psclust.rundir.samples_file import SamplesFile
from psclust.rundir.status import SAVED_CODE
from psclust.rundir.status_file import record_death
from psclust.supervise import events
from psclust.supervise.exit_code import describe_exit
from psclust.supervise.sampler import Sampler
from psclust.supervise.supervisor import Supervisor
from psclust.transport.fork_server_client import Load
from psclust.transport.local_transport import LocalTransport

if TYPE_CHECKING:
    from psclust.control.remote_transport import RemoteTransport


LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SupervisorRequest:
    """Settings of a new supervisor. warm: interpreter, preload and environment of the fork server
    to start at once. lock: the run's lock, held open. lease: read end of a pipe whose write end
    `psclust up` holds open until it ends. job_ports: set in a batch job: then SIGTERM lets programs
    save their work, as a batch system sends it to all processes of a job before it kills them, and
    other machines that share the run's folder reach the supervisor on one of these ports (a range,
    or auto). metrics: a listening socket for Prometheus. board: the run's TensorBoard."""

    folder: RunFolder
    name: str
    environ: Mapping[str, str]
    library_env: Mapping[str, str]
    warm: tuple[str, Load, Mapping[str, str]] | None
    lock: int
    lease: int
    job_ports: str | None = None
    metrics: int | None = None
    board: BoardCommand | None = None


def launch(request: SupervisorRequest, *, close: Sequence[int] = ()) -> int:
    """Fork the guard, which forks the supervisor, both without the file descriptors `close`;
    returns the guard's pid. The caller must have a single thread. Raises OSError when no process
    can be created."""
    log = request.folder.supervisor_log
    return guard.launch(
        log,
        lambda own_guard: supervise(request, own_guard),
        lambda code: _died(request.folder, code),
        close=close,
    )


def _died(folder: RunFolder, code: int) -> None:
    """Record the end of a supervisor that could not do so."""
    record_death(folder, describe_exit(code))
    _remove_made_hosts(folder)


def _remove_made_hosts(folder: RunFolder) -> None:
    if not folder.made_hosts.exists():
        return
    from psclust.reach.made_hosts import remove_hosts

    try:
        LOG.info("removed %d hosts", remove_hosts(folder))
    except PsclustError as error:
        LOG.warning("hosts were not removed: %s", error)  # `psclust down` tries again


def supervise(request: SupervisorRequest, own_guard: guard.Guard) -> int:
    """Be the supervisor until the run has ended."""
    supervisor = Supervisor(request.folder, request.name)
    signal.signal(signal.SIGCHLD, lambda *_: supervisor.children_changed())
    own_guard.on_term(
        lambda: supervisor.post(_stop_by_signal(own_guard, save=request.job_ports is not None))
    )
    local = LocalTransport(supervisor, request.environ, request.library_env, log=2)
    if request.warm is not None:
        local.warm(*request.warm)
    # Imports gRPC, which must not be in use when its process forks, and for which TensorFlow need
    # not wait.
    from psclust.control.remote_transport import RemoteTransport

    end_when_threads_fail()
    transport = RemoteTransport(local, request.folder, supervisor.post)
    detached = threading.Event()
    server = serve(supervisor, transport, request.folder, detached, ports=request.job_ports)
    stop_board = (
        start_board(request.board, request.environ, lambda text: supervisor.post(events.Note(text)))
        if request.board is not None
        else lambda: None
    )
    stop_metrics = (
        _serve_metrics(supervisor, request) if request.metrics is not None else lambda: None
    )
    threading.Thread(
        target=_watch_launcher,
        args=(request.lease, supervisor, detached),
        name="lease",
        daemon=True,
    ).start()
    over = threading.Event()
    sampler = Sampler(
        supervisor.inspection.readings, SamplesFile(request.folder.samples), supervisor.took
    )
    threading.Thread(target=sampler.run, args=(over,), name="samples", daemon=True).start()
    status = supervisor.run(transport)
    over.set()
    transport.close()
    stop_metrics()
    stop_board()
    _remove_made_hosts(request.folder)
    server.stop(grace=1.0).wait()
    for path in (request.folder.socket, request.folder.access):
        path.unlink(missing_ok=True)
    return 0 if status.ended else 1


def _serve_metrics(supervisor: Supervisor, request: SupervisorRequest) -> Callable[[], None]:
    """Returns what stops it."""
    # Loads prometheus_client, which most runs do without.
    from psclust.control.run_metrics import serve_metrics

    assert request.metrics is not None
    return serve_metrics(supervisor, request.name, request.metrics)


def _stop_by_signal(own_guard: guard.Guard, *, save: bool) -> events.Stop:
    if own_guard.is_gone():
        return events.Stop("the run's guard was killed; every task was stopped", exit_code=1)
    if save:
        return events.Stop("saved and stopped (SIGTERM)", exit_code=SAVED_CODE, save=True)
    return events.Stop("the supervisor got SIGTERM", exit_code=143)


def _watch_launcher(lease: int, supervisor: Supervisor, detached: threading.Event) -> None:
    """End the run when `psclust up` ends, however it ends: the kernel then closes the pipe."""
    with open(lease, "rb") as pipe:
        pipe.read()
    if not detached.is_set():
        supervisor.post(events.Stop("the `psclust up` that held this run is gone", exit_code=130))


def serve(  # type: ignore[no-untyped-def]
    supervisor: Supervisor,
    transport: RemoteTransport,
    folder: RunFolder,
    detached: threading.Event,
    *,
    ports: str | None = None,
):
    """Start the run's SupervisorService on the socket in its folder, and for other machines on one
    of `ports`; returns the gRPC server."""
    import grpc

    from psclust.control.network_access import open_to_other_machines
    from psclust.control.supervisor_service import SupervisorService

    server = grpc.server(
        ThreadPoolExecutor(max_workers=32), options=[("grpc.max_receive_message_length", -1)]
    )
    SupervisorService(supervisor, transport, detached).add_to(server)
    server.add_insecure_port(folder.socket_address())
    if ports is not None:
        open_to_other_machines(server, folder, ports)
    server.start()
    return server
