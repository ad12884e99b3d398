"""What `psclust up` can start before it has read and planned what it is asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from psclust.control.waiting_supervisor import WaitingSupervisor
from psclust.errors import PsclustError
from psclust.launch.default_file import default_file
from psclust.plan.task_environment import HostEnvironment, inherited, library_environment
from psclust.reach.ways import batch_system
from psclust.spec.program_command import parse_program
from psclust.transport.fork_server_client import Load
from psclust.transport.server_shim import server_shim

# They may say that tasks run elsewhere, or in another Python.
_DECIDE = ("hosts", "hostfile", "python", "no_preload", "module", "kubernetes", "env")
_DECIDE_IN_FILE = frozenset(
    {"hosts", "hostfile", "reach_by", "python", "preload", "kubernetes", "env", "env_file"}
)
_DECIDE_IN_JOB = frozenset({"hosts", "run", "server", "python", "env", "task_env"})


def early_start(flags: Mapping[str, Any]) -> AbstractContextManager[WaitingSupervisor | None]:
    """For a psclust program or bare servers, where nothing says that they do not run here, a
    supervisor that waits for its run. flags: of `up`. Whether its fork server is the right one
    shows when the plan is there; until then it has taken a tenth of a second of one core."""
    elsewhere = (
        any(flags[name] for name in _DECIDE) or batch_system().own_job(os.environ) is not None
    )
    load = None if elsewhere else load_of(flags["program"], flags["path"])
    if load is None:
        return nullcontext()
    here = HostEnvironment(
        environ=dict(os.environ), cwd=os.getcwd(), python=sys.executable, shim=server_shim()
    )
    try:
        return WaitingSupervisor(
            sys.executable, load, {**inherited(here.environ), **library_environment(here)}
        )
    except OSError:
        return nullcontext()  # no process can be made, as the one that is planned will find


def load_of(words: Sequence[str], path: str | None) -> Load | None:
    """What the tasks are forked from, if that can be said before they are planned. words: of the
    program and its arguments; path: of the cluster file."""
    try:
        keys = _keys(path if path is not None or words else default_file())
    except PsclustError:
        return None  # the reader of cluster files will say why
    if (
        keys is None
        or keys.keys() & _DECIDE_IN_FILE
        or any(job.keys() & _DECIDE_IN_JOB for job in _detailed_jobs(keys))
    ):
        return None
    program = words[0] if words else keys.get("program")
    if not program:
        return "library"
    return "psclust" if isinstance(program, str) and parse_program(program).is_psclust else None


def _keys(path: str | None) -> Mapping[str, Any] | None:
    """Those of the cluster file, none without one; None for what is no regular file or has no keys.
    Raises ClusterFileError if it cannot be read."""
    if path is None:
        return {}
    if not Path(path).is_file():
        return None
    # Loads PyYAML, which a command without a file does without.
    from psclust.spec.user_files import read_text
    from psclust.spec.yaml_lines import read_yaml

    data = read_yaml(read_text(Path(path), otherwise="")).data
    return data if isinstance(data, dict) else None


def _detailed_jobs(keys: Mapping[str, Any]) -> list[dict[str, Any]]:
    jobs = keys.get("jobs")
    return [job for job in jobs.values() if isinstance(job, dict)] if isinstance(jobs, dict) else []
