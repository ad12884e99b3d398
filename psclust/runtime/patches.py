"""What psclust changes in a preloaded TensorFlow before a script runs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.rundir.folder import write_atomically
from psclust.rundir.status import FINISHED, SERVING
from psclust.runtime.server import wait_for_a_signal


def lower_recovery_wait(seconds: float) -> None:
    """Poll every `seconds` where TensorFlow would sleep 30: the default of `recovery_wait_secs` in SessionManager, behind
    MonitoredTrainingSession, and in Supervisor. A worker that looks before the chief has initialised the variables sleeps that long.
    A value that a program passes itself stays its own."""
    from tensorflow.python.training import session_manager, supervisor

    for owner in (session_manager.SessionManager, supervisor.Supervisor):
        _set_default(inspect.unwrap(owner.__init__), "recovery_wait_secs", seconds)


class OwnServers:
    """Watches the TensorFlow servers that a program starts in its own process, and tells psclust what the program's exit code cannot.

    A program that calls `Server.join`, which never returns, is a server from then on: to be stopped when the work of the others is done,
    and not waited for. And a server lives on when its program has ended well: a client whose session has no device filters
    contacts every task when it begins, and would wait for ever for one that has finished already."""

    def __init__(self, progress_file: str) -> None:
        self._progress_file = Path(progress_file)
        self._started = False

    def watch(self) -> None:
        """From now on, for the life of the process."""
        from tensorflow.python.training import server_lib

        join, start = server_lib.Server.join, server_lib.Server.start

        def announced_join(server: Any) -> None:
            self._say(SERVING)
            join(server)

        def noted_start(server: Any) -> None:
            self._started = True
            start(server)

        server_lib.Server.join, server_lib.Server.start = announced_join, noted_start

    def outlive_program(self) -> None:
        """Where the program has started a server, serve until the supervisor ends this process."""
        if self._started:
            self._say(FINISHED)
            wait_for_a_signal()

    def _say(self, phase: str) -> None:
        with suppress(OSError):
            write_atomically(self._progress_file, json.dumps({"phase": phase}))


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [item.name for item in inspect.signature(function).parameters.values() if item.default is not item.empty]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
