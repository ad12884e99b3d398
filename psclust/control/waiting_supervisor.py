"""A supervisor that is forked before its run is known, with a fork server that loads meanwhile.

A fork server's tasks are to be the supervisor's children, so no other process can start it, and
TensorFlow would not load while the launcher reads and plans what it is asked for, which takes a
fifth as long. So the guard and the supervisor are forked while they are small, and load what they
need themselves. What comes later reaches them through sockets: the run's folder for the guard, the
whole request for the supervisor.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from psclust import framing
from psclust.agent import guard
from psclust.transport.fork_server_client import EarlyForkServer, Load

if TYPE_CHECKING:
    from psclust.control.supervisor_request import SupervisorRequest
    from psclust.rundir.folder import RunFolder


class WaitingSupervisor:
    """As a context, it ends guard, supervisor and fork server at the end of the block, unless they
    have a run then.

    python, load, environ: of the fork server; its tasks must want exactly these, else another one
    is started. The caller must have a single thread. Raises OSError when no process can be
    created."""

    def __init__(self, python: str, load: Load, environ: Mapping[str, str]) -> None:
        self._to_guard, guards = socket.socketpair()
        self._to_supervisor, supervisors = socket.socketpair()
        begun = _Begun(guards, supervisors)
        ours = (self._to_guard, self._to_supervisor)
        with guards, supervisors:
            self._guard: int | None = guard.launch(
                Path(os.devnull),
                lambda own_guard: _wait(own_guard, supervisors, python, load, environ),
                begun.died,
                close=[end.fileno() for end in ours],
                wanted=begun.wait,
            )

    def __enter__(self) -> WaitingSupervisor:
        return self

    def __exit__(self, *_: object) -> None:
        # Where they have got no request, they end now.
        self._to_guard.close()
        self._to_supervisor.close()
        if self._guard is not None:
            with suppress(ChildProcessError):
                os.waitpid(self._guard, 0)

    def begin(self, request: SupervisorRequest) -> int:
        """Give it its run; returns the guard's pid. Raises OSError if it is gone."""
        assert self._guard is not None
        files = [
            file for file in (request.lock, request.lease, request.metrics) if file is not None
        ]
        framing.send(self._to_supervisor, pickle.dumps(request), files)
        framing.send(self._to_guard, pickle.dumps(request.folder), [request.lock])
        begun, self._guard = self._guard, None
        return begun


class _Begun:
    """The guard's side. supervisors: the end that only the supervisor is to hold, so that a request
    to a dead one fails."""

    def __init__(self, requests: socket.socket, supervisors: socket.socket) -> None:
        self._requests, self._supervisors = requests, supervisors
        self._folder: RunFolder | None = None

    def wait(self) -> bool:
        """Whether there is a run. The lock stays open here, too."""
        self._supervisors.close()
        try:
            message, _ = framing.receive(self._requests, max_files=1)
        except ConnectionResetError:
            return False
        self._folder = folder = pickle.loads(message)
        guard.write_to(folder.supervisor_log)
        return True

    def died(self, code: int) -> None:
        from psclust.control.supervisor_process import died

        assert self._folder is not None
        died(self._folder, code)


def _wait(
    own_guard: guard.Guard,
    requests: socket.socket,
    python: str,
    load: Load,
    environ: Mapping[str, str],
) -> int:
    """Be the supervisor, as soon as there is a run."""
    early = EarlyForkServer(python, load, environ)
    message, files = framing.receive(requests, max_files=3)
    requests.close()
    # Loads all that a supervisor is, for which there is time until TensorFlow is loaded: not
    # before, while the launcher needs the cores.
    from psclust.control.supervisor_process import supervise

    request: SupervisorRequest = pickle.loads(message)
    request = replace(
        request,
        lock=files[0],
        lease=files[1],
        metrics=files[2] if request.metrics is not None else None,
    )
    guard.write_to(request.folder.supervisor_log)
    return supervise(request, own_guard, early)
