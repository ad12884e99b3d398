"""What psclust changes in a preloaded TensorFlow before a script runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any


def lower_recovery_wait(seconds: float) -> None:
    """Poll every `seconds` where TensorFlow would sleep 30: the default of `recovery_wait_secs` in SessionManager, behind
    MonitoredTrainingSession, and in Supervisor. A worker that looks before the chief has initialised the variables sleeps that long.
    A value that a program passes itself stays its own."""
    from tensorflow.python.training import session_manager, supervisor

    for owner in (session_manager.SessionManager, supervisor.Supervisor):
        _set_default(inspect.unwrap(owner.__init__), "recovery_wait_secs", seconds)


def _set_default(function: Callable[..., Any], parameter: str, value: object) -> None:
    names = [item.name for item in inspect.signature(function).parameters.values() if item.default is not item.empty]
    defaults = list(function.__defaults__ or ())
    defaults[names.index(parameter)] = value
    function.__defaults__ = tuple(defaults)
