"""Where a task and a run can be. This file may import nothing of psclust."""

from __future__ import annotations

from enum import Enum


class Phase(str, Enum):
    """A task's. STARTING: asked for, or a server that does not answer yet. FAILED: ended badly and is not started again."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


class RunPhase(str, Enum):
    """A run's. FINISHING: those who decide have ended, other programs get their grace."""

    LIVE = "live"
    FINISHING = "finishing"
    STOPPING = "stopping"
    ENDED = "ended"
