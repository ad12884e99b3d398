"""The changes that psclust makes to TensorFlow in the process of a script or of a psclust
program."""

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

from psclust.runtime.import_hook import when_imported
from psclust.runtime.own_servers import OwnServers


def patch(
    recovery_wait_s: float | None, environment: Mapping[str, str]
) -> Callable[[], None] | None:
    """Change TensorFlow for one script, now or when the script imports it; returns what to call
    after the script has ended successfully."""
    if recovery_wait_s is not None:
        lower_recovery_wait(recovery_wait_s)
    delete_converted_files()
    hide_own_frames()
    if (
        "PSCLUST_PROGRESS" not in environment or "PSCLUST_REPLICATION" in environment
    ):  # psclust programs end together
        return None
    servers = OwnServers(environment["PSCLUST_PROGRESS"])
    servers.watch()
    return servers.outlive_program


def lower_recovery_wait(wait_s: float) -> None:
    """Poll every `wait_s` where TensorFlow would sleep 30 s: the default of `recovery_wait_secs` in
    SessionManager, behind MonitoredTrainingSession, and in Supervisor. A worker that looks before
    the chief has initialised the variables sleeps that long. A value that a program passes
    stays."""

    def lower(owner: str) -> Callable[[ModuleType], None]:
        return lambda module: _set_default(
            inspect.unwrap(getattr(module, owner).__init__), "recovery_wait_secs", wait_s
        )

    when_imported(
        {
            "tensorflow.python.training.session_manager": lower("SessionManager"),
            "tensorflow.python.training.supervisor": lower("Supervisor"),
        }
    )


def delete_converted_files() -> None:
    """AutoGraph writes every function that it converts to a temporary file, imports that, and
    deletes it when Python exits: not in a task that a signal ends. Delete it when it has been
    imported: `linecache`, which tracebacks and `inspect` ask, keeps its lines."""
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
    """Leave psclust's frames, below those of the program, out of the stack that TensorFlow records
    for each op and shows in errors."""
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


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [
        item.name
        for item in inspect.signature(function).parameters.values()
        if item.default is not item.empty
    ]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
