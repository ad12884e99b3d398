"""What psclust changes in a preloaded TensorFlow before a script runs."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from psclust.rundir.folder import write_atomically
from psclust.rundir.status import SERVING


def lower_recovery_wait(seconds: float) -> None:
    """Poll every `seconds` where TensorFlow would sleep 30: the default of `recovery_wait_secs` in SessionManager, behind
    MonitoredTrainingSession, and in Supervisor. A worker that looks before the chief has initialised the variables sleeps that long.
    A value that a program passes itself stays its own."""
    from tensorflow.python.training import session_manager, supervisor

    for owner in (session_manager.SessionManager, supervisor.Supervisor):
        _set_default(inspect.unwrap(owner.__init__), "recovery_wait_secs", seconds)


def announce_join(progress_file: str) -> None:
    """Say in the task's progress file that the program has called `Server.join`, which never returns: from then on it is a server, to be
    stopped when the work of the others is done, and not a program to be waited for."""
    from tensorflow.python.training import server_lib

    join = server_lib.Server.join

    def announced_join(server: Any) -> None:
        with suppress(OSError):
            write_atomically(Path(progress_file), json.dumps({"phase": SERVING}))
        join(server)

    server_lib.Server.join = announced_join


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [item.name for item in inspect.signature(function).parameters.values() if item.default is not item.empty]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
