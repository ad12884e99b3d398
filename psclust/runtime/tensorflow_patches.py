"""The changes that psclust makes to TensorFlow in the process of a script or of a psclust program."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from psclust.rundir.atomic_file import write_atomically
from psclust.rundir.task_progress import FINISHED, SERVING, Progress
from psclust.runtime.bare_server import wait_for_a_signal
from psclust.runtime.import_hook import when_imported


def patch(recovery_wait_s: float | None, environment: Mapping[str, str]) -> Callable[[], None] | None:
    """Change TensorFlow for one script, now or when the script imports it; returns what to call after the script has ended successfully."""
    if recovery_wait_s is not None:
        lower_recovery_wait(recovery_wait_s)
    delete_converted_files()
    hide_own_frames()
    if "PSCLUST_PROGRESS" not in environment or "PSCLUST_REPLICATION" in environment:  # psclust programs end together
        return None
    servers = OwnServers(environment["PSCLUST_PROGRESS"])
    servers.watch()
    return servers.outlive_program


def lower_recovery_wait(wait_s: float) -> None:
    """Poll every `wait_s` where TensorFlow would sleep 30 s: the default of `recovery_wait_secs` in SessionManager, behind
    MonitoredTrainingSession, and in Supervisor. A worker that looks before the chief has initialised the variables sleeps that long.
    A value that a program passes stays."""

    def lower(owner: str) -> Callable[[ModuleType], None]:
        return lambda module: _set_default(inspect.unwrap(getattr(module, owner).__init__), "recovery_wait_secs", wait_s)

    when_imported(
        {
            "tensorflow.python.training.session_manager": lower("SessionManager"),
            "tensorflow.python.training.supervisor": lower("Supervisor"),
        }
    )


def delete_converted_files() -> None:
    """AutoGraph writes every function that it converts to a temporary file, imports that, and deletes it when Python exits: not in a task
    that a signal ends. Delete it when it has been imported: `linecache`, which tracebacks and `inspect` ask, keeps its lines."""
    when_imported({"tensorflow.python.autograph.pyct.loader": _patch_loader})


def _patch_loader(loader: Any) -> None:
    load = loader.load_source

    def load_source(source: str, delete_on_exit: bool) -> tuple[ModuleType, str]:
        written = sys.dont_write_bytecode
        sys.dont_write_bytecode = written or delete_on_exit
        try:
            module, name = load(source, delete_on_exit)
        finally:
            sys.dont_write_bytecode = written
        if delete_on_exit:
            # No time of change: such an entry stays, whether there is a file or not.
            linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
            with suppress(OSError):
                os.unlink(name)
        return module, name

    loader.load_source = load_source


def hide_own_frames() -> None:
    """Leave psclust's frames, below those of the program, out of the stack that TensorFlow records for each op and shows in errors."""
    when_imported({"tensorflow.python.util.tf_stack": _patch_stacks})


def _patch_stacks(tf_stack: Any) -> None:
    own = frozenset(map(str, Path(__file__).parent.glob("*.py")))

    class WithoutOwnFrames(tf_stack.SentinelFilter):  # type: ignore[misc]
        def get_filtered_filenames(self) -> frozenset[str]:
            return own

    def outermost() -> list[WithoutOwnFrames]:
        without = WithoutOwnFrames()
        without.update()
        return [without]

    tf_stack._source_filter_stacks.default_factory = outermost
    tf_stack._source_filter_stacks.clear()  # of this thread, where nothing filters yet


class OwnServers:
    """Reports the state of TensorFlow servers in the program's own process, which its exit code cannot show.

    A program that calls `Server.join`, which never returns, is only a server from then on: psclust stops it when the others are done,
    instead of waiting for it. A server outlives its program if that ends successfully: a client without device filters connects to
    every task at its start, and would wait for ever for one that has ended."""

    def __init__(self, progress_file: str) -> None:
        self._progress_file = Path(progress_file)
        self._process = os.getpid()
        self._started = False

    def watch(self) -> None:
        """Watch until the process ends."""
        when_imported({"tensorflow.python.training.server_lib": self._patch_server})

    def _patch_server(self, server_lib: Any) -> None:
        join, start = server_lib.Server.join, server_lib.Server.start

        def reported_join(server: Any) -> None:
            self._report(SERVING)
            join(server)

        def noted_start(server: Any) -> None:
            self._started = self._started or self._is_here()
            start(server)

        server_lib.Server.join, server_lib.Server.start = reported_join, noted_start

    def outlive_program(self) -> None:
        """If the program has started a server, serve until the supervisor ends this process."""
        if self._started:
            self._report(FINISHED)
            wait_for_a_signal()

    def _is_here(self) -> bool:
        """False in a process that the program has forked: its servers are not those of the program."""
        return os.getpid() == self._process

    def _report(self, phase: str) -> None:
        if not self._is_here():
            return
        with suppress(OSError):
            write_atomically(self._progress_file, Progress(phase=phase).to_json())


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [item.name for item in inspect.signature(function).parameters.values() if item.default is not item.empty]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
