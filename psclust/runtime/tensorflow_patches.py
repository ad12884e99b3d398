"""The changes that psclust makes to TensorFlow in the process of a script or of a psclust
program."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from psclust.runtime.import_hook import Change, when_imported
from psclust.runtime.own_servers import OwnServers


def patch(
    recovery_wait_s: float | None, environment: Mapping[str, str]
) -> Callable[[], None] | None:
    """Change TensorFlow for one script, now or when the script imports it; returns what to call
    after the script has ended successfully."""
    changes: dict[str, Change] = {
        "tensorflow.python.autograph.pyct.loader": _delete_converted_files,
        "tensorflow.python.util.tf_stack": _hide_own_frames,
    }
    if recovery_wait_s is not None:
        for name, owner in (("session_manager", "SessionManager"), ("supervisor", "Supervisor")):
            lower = partial(_lower_recovery_wait, owner, recovery_wait_s)
            changes[f"tensorflow.python.training.{name}"] = lower
    servers = None
    # psclust programs end together.
    if "PSCLUST_PROGRESS" in environment and "PSCLUST_REPLICATION" not in environment:
        servers = OwnServers(environment["PSCLUST_PROGRESS"])
        changes["tensorflow.python.training.server_lib"] = servers.watch
    when_imported(changes)
    return servers.outlive_program if servers else None


def _lower_recovery_wait(owner: str, wait_s: float, module: ModuleType) -> None:
    """Poll every `wait_s` where TensorFlow would sleep 30 s: the default of `recovery_wait_secs` in
    SessionManager, behind MonitoredTrainingSession, and in Supervisor. A worker that looks before
    the chief has initialised the variables sleeps that long. A value that a program passes
    stays."""
    function = inspect.unwrap(getattr(module, owner).__init__)
    names = [
        item.name
        for item in inspect.signature(function).parameters.values()
        if item.default is not item.empty
    ]
    defaults = list(function.__defaults__ or ())
    defaults[names.index("recovery_wait_secs")] = wait_s
    function.__defaults__ = tuple(defaults)


def _delete_converted_files(loader: Any) -> None:
    """AutoGraph writes every function that it converts to a temporary file, imports that, and
    deletes it when Python exits: not in a task that a signal ends. Delete it when it has been
    imported: `linecache`, which tracebacks and `inspect` ask, keeps its lines."""
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


def _hide_own_frames(tf_stack: Any) -> None:
    """Leave psclust's frames, below those of the program, out of the stack that TensorFlow records
    for each op and shows in errors."""
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
