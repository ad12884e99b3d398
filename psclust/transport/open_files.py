"""How many files may be open here, and how many a run needs: pipes and logs of tasks, reserved ports, connections."""

from __future__ import annotations

import errno
import os
import resource

_BASE = 64  # gRPC, fork servers, the interpreter: 30 were counted
_PER_TASK = 4  # a log, its pipe, a reserved port; a pipe's other end for a moment
_PER_HOST = 8  # a channel, an SSH connection and its tunnel


def raise_limit() -> tuple[int, int]:
    """Raise this process's soft limit of open files to the hard one. The limits before: soft, hard."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    return before


def needed(tasks: int, hosts: int) -> int:
    """Open files of a supervisor of `tasks` tasks on this machine and agents on `hosts` others."""
    return _BASE + _PER_TASK * tasks + _PER_HOST * hosts


def explain_shortage(error: OSError | RuntimeError) -> str:
    """Why something could not be started, as a clause."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"{os.strerror(error.errno or 0).lower()}: psclust may have {limit}; raise the limit (ulimit -n)"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return f"{error}; perhaps the limit of processes (ulimit -u) or the memory is used up"
