"""What psclust changes in the TensorFlow of a script."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.task_progress import FINISHED, SERVING, Progress
from psclust.runtime.bare_server import wait_for_a_signal
from psclust.runtime.import_hook import when_imported


def patch(recovery_wait: float | None, environment: Mapping[str, str]) -> Callable[[], None] | None:
    """Change TensorFlow for one script, also where the script has yet to import it; what to call once the script has ended well."""
    if recovery_wait is not None:
        lower_recovery_wait(recovery_wait)
    if "PSCLUST_PROGRESS" not in environment or "PSCLUST_REPLICATION" in environment:  # psclust's own programs end together
        return None
    servers = OwnServers(environment["PSCLUST_PROGRESS"])
    servers.watch()
    return servers.outlive_program


def lower_recovery_wait(seconds: float) -> None:
    """Poll every `seconds` where TensorFlow would sleep 30: the default of `recovery_wait_secs` in SessionManager, behind
    MonitoredTrainingSession, and in Supervisor. A worker that looks before the chief has initialised the variables sleeps that long.
    A value that a program passes itself stays its own."""

    def lower(owner: str) -> Callable[[ModuleType], None]:
        return lambda module: _set_default(inspect.unwrap(getattr(module, owner).__init__), "recovery_wait_secs", seconds)

    when_imported(
        {
            "tensorflow.python.training.session_manager": lower("SessionManager"),
            "tensorflow.python.training.supervisor": lower("Supervisor"),
        }
    )


class OwnServers:
    """Watches the TensorFlow servers that a program starts in its own process, and tells psclust what the program's exit code cannot.

    A program that calls `Server.join`, which never returns, is a server from then on: to be stopped when the work of the others is done,
    and not waited for. And a server lives on when its program has ended well: a client whose session has no device filters
    contacts every task when it begins, and would wait for ever for one that has finished already."""

    def __init__(self, progress_file: str) -> None:
        self._progress_file = Path(progress_file)
        self._process = os.getpid()
        self._started = False

    def watch(self) -> None:
        """From now on, for the life of the process."""
        when_imported({"tensorflow.python.training.server_lib": self._watch})

    def _watch(self, server_lib: Any) -> None:
        join, start = server_lib.Server.join, server_lib.Server.start

        def announced_join(server: Any) -> None:
            self._say(SERVING)
            join(server)

        def noted_start(server: Any) -> None:
            self._started = self._started or self._is_here()
            start(server)

        server_lib.Server.join, server_lib.Server.start = announced_join, noted_start

    def outlive_program(self) -> None:
        """Where the program has started a server, serve until the supervisor ends this process."""
        if self._started:
            self._say(FINISHED)
            wait_for_a_signal()

    def _is_here(self) -> bool:
        """Not in a process that the program has forked, whose servers say nothing of the program itself."""
        return os.getpid() == self._process

    def _say(self, phase: str) -> None:
        if not self._is_here():
            return
        with suppress(OSError):
            write_atomically(self._progress_file, Progress(phase=phase).to_json())


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [item.name for item in inspect.signature(function).parameters.values() if item.default is not item.empty]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
