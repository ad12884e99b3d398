"""Notes while a cluster comes up: what it waits for, and that it is up."""

from __future__ import annotations

from dataclasses import dataclass

from psclust.cli.summary import is_up, render_up, render_waits
from psclust.plan.task_plan import Plan
from psclust.rundir.status import DROPPED, RunStatus

_SETTLE_S = 0.5  # for programs that fail at once
_QUIET_S = 3.0  # before a wait is worth a note
_SILENT_S = 15.0  # then `up` stops waiting for a script that serves late, or elsewhere


@dataclass
class StartupNotes:
    """`over`: the cluster is up, or there is nothing more to report."""

    plan: Plan
    over: bool = False
    _began: float | None = None
    _since: float = 0.0
    _waits: str = ""
    _fit: float | None = None

    def updates(self, status: RunStatus, now: float) -> list[str]:
        """New lines to show. `now`: seconds on a monotonic clock."""
        if self.over:
            return []
        self._began = self._began or now
        self._fit = (self._fit or now) if is_up(self.plan, status) else None
        if self._fit is not None and (
            now - self._fit > _SETTLE_S or all(task.serves for task in self.plan.tasks)
        ):
            self.over = True
            return [render_up(self.plan, status)]
        waits = render_waits(self.plan, status)
        if waits != self._waits:
            self._waits, self._since = waits, now
        if self._fit is None and waits and now - self._began > _SILENT_S and _has_started(status):
            self.over = True
            return [f"{self.plan.name} has been started; still {waits}"]
        if waits and now - self._since > _QUIET_S:
            self._since = float("inf")
            return [waits]
        return []


def _has_started(status: RunStatus) -> bool:
    """Whether every task has a process; psclust's own servers answer before programs start."""
    return status.phase == "live" and all(
        task.phase in ("running", "done", DROPPED) or task.role == "side" for task in status.tasks
    )
