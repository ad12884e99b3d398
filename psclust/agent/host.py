"""From `up` to a running supervisor, under a guard of its own."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psclust.agent import guard
from psclust.rundir.folder import RunFolder, write_atomically
from psclust.rundir.status import RunStatus
from psclust.supervise import events
from psclust.supervise.death import describe_exit
from psclust.supervise.supervisor import Supervisor
from psclust.transport.fork_server import Load
from psclust.transport.local import LocalTransport

if TYPE_CHECKING:
    from psclust.agent.fleet import Fleet


@dataclass(frozen=True, slots=True)
class HostRequest:
    """What a new supervisor is given: the run, the environment of its tasks, and what its fork servers should begin to load."""

    folder: RunFolder
    name: str
    environ: Mapping[str, str]
    library_env: Mapping[str, str]
    warm: Sequence[tuple[str, Load]]
    lock: int
    first_plan_s: float = 30.0  # within which whoever started the supervisor must give it work


def launch(request: HostRequest) -> int:
    """Fork the guard, which forks the supervisor; the guard's pid. The caller must have a single thread."""
    return guard.launch(request.folder.supervisor_log, lambda: supervise(request), lambda code: _record_death(request.folder, code))


def supervise(request: HostRequest) -> int:
    """Be the supervisor until the run has ended."""
    # Imported after the fork: gRPC must not have been at work in the process that was forked.
    from psclust.agent.fleet import Fleet

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    guard.become_subreaper()
    supervisor = Supervisor(request.folder, request.name)
    signal.signal(signal.SIGCHLD, lambda *_: supervisor.children_changed())
    signal.signal(signal.SIGTERM, lambda *_: supervisor.post(events.Stop("the supervisor was told to stop (SIGTERM)", exit_code=143)))
    local = LocalTransport(supervisor, request.environ, request.library_env, log=2)
    transport = Fleet(local, request.folder, supervisor)
    for python, load in request.warm:
        local.warm(python, load)
    server = _serve(supervisor, transport, request.folder)
    idle = threading.Timer(request.first_plan_s, supervisor.stop_if_idle)
    idle.daemon = True
    idle.start()
    status = supervisor.run(transport, transport)
    transport.close()
    server.stop(grace=1.0).wait()
    request.folder.socket.unlink(missing_ok=True)
    return 0 if status.ended else 1


def _serve(supervisor: Supervisor, fleet: Fleet, folder: RunFolder):  # type: ignore[no-untyped-def]
    import grpc

    from psclust.agent import agent_pb2_grpc
    from psclust.agent.service import AgentService

    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=[("grpc.max_receive_message_length", -1)])
    agent_pb2_grpc.add_AgentServicer_to_server(AgentService(supervisor, fleet), server)
    server.add_insecure_port(folder.socket_address())
    server.start()
    return server


def _record_death(folder: RunFolder, code: int) -> None:
    """The supervisor did not end as it should: say so where it would have said how the run ended."""
    try:
        status = RunStatus.from_json(folder.status.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    text = f"the supervisor {describe_exit(code)}; every task of the run was stopped"
    tasks = tuple(replace(task, phase="stopped" if task.pid else task.phase, pid=None) for task in status.tasks)
    ended = replace(status, phase="ended", ok=False, exit_code=1, text=text, tasks=tasks)
    write_atomically(folder.status, ended.to_json(indent=1))
    folder.socket.unlink(missing_ok=True)
