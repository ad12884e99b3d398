"""From `up` to a running supervisor, under a guard of its own."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psclust.agent import guard
from psclust.rundir.folder import RunFolder
from psclust.rundir.status_file import record_death
from psclust.supervise import events
from psclust.supervise.exit_code import describe_exit
from psclust.supervise.supervisor import Supervisor
from psclust.transport.fork_server_client import Load
from psclust.transport.local_transport import LocalTransport

if TYPE_CHECKING:
    from psclust.control.remote_transport import RemoteTransport


@dataclass(frozen=True, slots=True)
class SupervisorRequest:
    """What a new supervisor is given: the run, the environment of its tasks, and what its fork servers should begin to load. lease: the
    read end of a pipe whose write end the launcher holds open for as long as the run may live."""

    folder: RunFolder
    name: str
    environ: Mapping[str, str]
    library_env: Mapping[str, str]
    warm: Sequence[tuple[str, Load, Mapping[str, str]]]
    lock: int
    lease: int


def launch(request: SupervisorRequest, *, close: Sequence[int] = ()) -> int:
    """Fork the guard, which forks the supervisor, both without the file descriptors `close`; the guard's pid. The caller must have a single
    thread. Raises OSError when there can be no more processes."""
    log, died = request.folder.supervisor_log, lambda code: record_death(request.folder, describe_exit(code))
    return guard.launch(log, lambda own_guard: supervise(request, own_guard), died, close=close)


def supervise(request: SupervisorRequest, own_guard: guard.Guard) -> int:
    """Be the supervisor until the run has ended."""
    # Imported after the fork: gRPC must not have been at work in the process that was forked.
    from psclust.control.remote_transport import RemoteTransport

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    guard.become_subreaper()
    supervisor = Supervisor(request.folder, request.name)
    signal.signal(signal.SIGCHLD, lambda *_: supervisor.children_changed())
    own_guard.on_term(lambda: supervisor.post(_told_to_stop(own_guard)))
    local = LocalTransport(supervisor, request.environ, request.library_env, log=2)
    transport = RemoteTransport(local, request.folder, supervisor)
    for python, load, env in request.warm:
        local.warm(python, load, env)
    detached = threading.Event()
    server = _serve(supervisor, transport, request.folder, detached)
    threading.Thread(target=_hold, args=(request.lease, supervisor, detached), name="lease", daemon=True).start()
    status = supervisor.run(transport, transport)
    transport.close()
    server.stop(grace=1.0).wait()
    request.folder.socket.unlink(missing_ok=True)
    return 0 if status.ended else 1


def _told_to_stop(own_guard: guard.Guard) -> events.Stop:
    if own_guard.is_gone():
        return events.Stop("the run's guard was killed; every task was stopped", exit_code=1)
    return events.Stop("the supervisor was told to stop (SIGTERM)", exit_code=143)


def _hold(lease: int, supervisor: Supervisor, detached: threading.Event) -> None:
    """End the run when its launcher is gone, from the moment of the fork on: the kernel closes the pipe with the launcher."""
    with open(lease, "rb") as pipe:
        pipe.read()
    if not detached.is_set():
        supervisor.post(events.Stop("the `psclust up` that held this run is gone", exit_code=130))


def _serve(supervisor: Supervisor, transport: RemoteTransport, folder: RunFolder, detached: threading.Event):  # type: ignore[no-untyped-def]
    import grpc

    from psclust.control import supervisor_pb2_grpc
    from psclust.control.supervisor_service import SupervisorService

    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=[("grpc.max_receive_message_length", -1)])
    supervisor_pb2_grpc.add_SupervisorServicer_to_server(SupervisorService(supervisor, transport, detached), server)
    server.add_insecure_port(folder.socket_address())
    server.start()
    return server
