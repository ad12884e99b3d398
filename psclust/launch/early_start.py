"""What `psclust up` can start before it has read and planned what it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from psclust.control.waiting_supervisor import WaitingSupervisor
from psclust.plan.task_environment import HostEnvironment, inherited, library_environment
from psclust.spec.program_command import parse_program
from psclust.transport.fork_server_client import Load
from psclust.transport.server_shim import server_shim

# They may say that tasks run elsewhere, or in another Python.
_DECIDE = ("path", "hosts", "hostfile", "python", "no_preload", "module", "kubernetes", "env")


def early_start(flags: Mapping[str, object]) -> AbstractContextManager[WaitingSupervisor | None]:
    """For a psclust program or bare servers, where nothing says that they do not run here, a supervisor that waits for its run. flags: of
    `up`. Whether its fork server is the right one shows when the plan is there; until then it has taken a tenth of a second of one core."""
    program = flags["program"]
    assert isinstance(program, tuple)
    load = _load(program)
    if load is None or any(flags[name] for name in _DECIDE):
        return nullcontext()
    here = HostEnvironment(environ=dict(os.environ), cwd=os.getcwd(), python=sys.executable, shim=server_shim())
    try:
        return WaitingSupervisor(sys.executable, load, {**inherited(here.environ), **library_environment(here)})
    except OSError:
        return nullcontext()  # no process can be made, as the one that is planned will find


def _load(program: tuple[str, ...]) -> Load | None:
    """What its tasks are forked from, if that can be said before it is planned."""
    if not program:
        return "library"
    return "psclust" if parse_program(program[:1]).is_psclust else None
