"""How often and how soon a dead task is started again: a limit within a window, exponential back-off with jitter."""

from __future__ import annotations

import zlib

from psclust.plan.task_plan import RestartPolicy
from psclust.spec.cluster import Task


def allowance(policy: RestartPolicy, restarts: tuple[float, ...], now: float, task: Task) -> float | None:
    """Seconds until the next start, or None when the limit is reached. `restarts` are the times of earlier ones. The jitter (up to a
    quarter more) comes from the task's name and the attempt, so that a replayed history gives the same answer."""
    recent = sum(1 for at in restarts if now - at <= policy.window_s)
    if recent >= policy.max:
        return None
    delay: float = min(policy.backoff_s * 2.0**recent, policy.max_backoff_s)
    jitter = zlib.crc32(f"{task}/{len(restarts)}".encode()) % 1000 / 4000
    return delay * (1 + jitter)
