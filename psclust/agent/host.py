"""From `up` to a running supervisor: a guard and, under it, the supervisor, both forked off and in a session of their own.

The guard does nothing but wait. When the supervisor is gone, however it ended, everything the run started has been re-parented to the
guard (a subreaper), so it can end all of it, even what has left its process group, by parentage alone. A supervisor whose guard dies is
told by a signal and stops the run.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import psutil

from psclust.rundir.folder import RunFolder, write_atomically
from psclust.rundir.status import RunStatus
from psclust.supervise import events
from psclust.supervise.death import describe_exit
from psclust.supervise.supervisor import Supervisor
from psclust.transport.fork_server import Load
from psclust.transport.local import LocalTransport

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_FIRST_PLAN = 30.0  # seconds within which whoever started a supervisor must give it work


@dataclass(frozen=True, slots=True)
class HostRequest:
    """What a new supervisor is given: the run, the environment of its tasks, and what its fork servers should begin to load."""

    folder: RunFolder
    name: str
    environ: Mapping[str, str]
    library_env: Mapping[str, str]
    warm: Sequence[tuple[str, Load]]
    lock: int


def launch(request: HostRequest) -> int:
    """Fork the guard, which forks the supervisor; the guard's pid. The caller must have a single thread."""
    guard = os.fork()
    if guard:
        return guard
    code = 1
    try:
        os.setsid()
        log = os.open(request.folder.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (log, 1), (log, 2)):
            os.dup2(source, target)
        code = _guard(request)
    except BaseException:  # noqa: BLE001 - a process's outermost frame: whatever happened must reach the log
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _guard(request: HostRequest) -> int:
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for name in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(name, signal.SIG_IGN)
    supervisor = os.fork()
    if supervisor == 0:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        return supervise(request)
    code = _wait_for(supervisor)
    end_descendants()
    if code != 0:
        _record_death(request.folder, code)
    return 0


def supervise(request: HostRequest) -> int:
    """Be the supervisor until the run has ended."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    supervisor = Supervisor(request.folder, request.name)
    signal.signal(signal.SIGCHLD, lambda *_: supervisor.children_changed())
    signal.signal(signal.SIGTERM, lambda *_: supervisor.post(events.Stop("the supervisor was told to stop (SIGTERM)", exit_code=143)))
    transport = LocalTransport(supervisor, request.environ, request.library_env, log=2)
    for python, load in request.warm:
        transport.warm(python, load)
    server = _serve(supervisor, request.folder)
    idle = threading.Timer(_FIRST_PLAN, supervisor.stop_if_idle)
    idle.daemon = True
    idle.start()
    status = supervisor.run(transport, transport)
    transport.close()
    server.stop(grace=1.0).wait()
    request.folder.socket.unlink(missing_ok=True)
    return 0 if status.ended else 1


def _serve(supervisor: Supervisor, folder: RunFolder):  # type: ignore[no-untyped-def]
    # Imported after the fork: gRPC must not have been at work in the process that was forked.
    import grpc

    from psclust.agent import agent_pb2_grpc
    from psclust.agent.service import AgentService

    server = grpc.server(ThreadPoolExecutor(max_workers=32), options=[("grpc.max_receive_message_length", -1)])
    agent_pb2_grpc.add_AgentServicer_to_server(AgentService(supervisor), server)
    server.add_insecure_port(folder.socket_address())
    server.start()
    return server


def prctl(option: int, value: int) -> None:
    """Linux's prctl(2). Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def end_descendants() -> None:
    """KILL everything below this process, until nothing is left."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        _reap_all()


def _reap_all() -> None:
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.005)
        except ChildProcessError:
            return


def _wait_for(pid: int) -> int:
    """The exit code of one child; others that end meanwhile are reaped."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


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
