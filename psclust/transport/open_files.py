"""The limit of open files, and how many a run needs: pipes and logs of tasks, reserved ports,
connections."""

from __future__ import annotations

import errno
import os
import resource

_BASE = 64  # gRPC, fork servers, the interpreter; measured: 30
_PER_TASK = 4  # a log, its pipe, a reserved port; briefly the pipe's other end
_PER_HOST = 8  # a channel, an SSH connection and its tunnel


def raise_limit() -> tuple[int, int]:
    """Raise this process's soft limit of open files to the hard one; returns the old limits (soft,
    hard)."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    return before


def needed(tasks: int, hosts: int) -> int:
    """Open files of a supervisor with `tasks` tasks on this machine and agents on `hosts` other
    hosts."""
    return _BASE + _PER_TASK * tasks + _PER_HOST * hosts


def explain_shortage(error: OSError | RuntimeError) -> str:
    """Why a start failed, as a clause."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return (
            f"{os.strerror(error.errno or 0).lower()}: psclust may have {limit}; "
            "raise the limit (ulimit -n)"
        )
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror)
    return f"{error}; perhaps the limit of processes (ulimit -u) or the memory is used up"
