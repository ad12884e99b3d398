"""What the rules of a run know of it. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import Died, HostLost, Outcome


class TaskPhase(str, Enum):
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


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task's history in brief. `due`: when the next thing happens by itself (start after back-off, KILL after TERM)."""

    plan: TaskPlan
    phase: TaskPhase = TaskPhase.WAITING
    attempt: int = 0
    since: float = 0.0
    due: float | None = None
    pid: int | None = None
    exit_code: int | None = None
    restarts: tuple[float, ...] = ()
    served: bool = False  # in this attempt
    joined: bool = False  # in this attempt: only a server any more
    finished: bool = False  # in this attempt: the program has ended well, its process serves on
    trained: bool = False  # in this attempt: needs no other task any more
    over: bool = False  # in this attempt: trained, and about to end
    again: bool = False  # STOPPING on the way to a restart
    removed: bool = False  # STOPPING on the way out of the plan

    @property
    def alive(self) -> bool:
        return self.phase in (TaskPhase.STARTING, TaskPhase.RUNNING, TaskPhase.STOPPING)

    @property
    def awaited(self) -> bool:
        """Whether it is a server, a bare one or a ps script, that has a process and has not answered yet."""
        under_way = self.phase is TaskPhase.STARTING if self.plan.serves else self.phase is TaskPhase.RUNNING
        return under_way and self.plan.role == "server" and self.plan.address is not None and self.pid is not None and not self.served


@dataclass(frozen=True, slots=True)
class RunState:
    """A whole run. `deaths` are all unsuccessful ends so far, in order; `outcome` is set when it is clear how the run ends. With the hosts
    `silent` there is no contact; on the hosts `lost` nothing is started any more, and those `missed` had tasks that nobody needs as long
    as no program starts again. `notes` are sentences for the user. `hold` is set while tasks of a lost host move: nobody is
    started before that time, nor before all who know the old addresses have ended."""

    plan: Plan | None = None
    phase: RunPhase = RunPhase.LIVE
    tasks: dict[Task, TaskState] = field(default_factory=dict)
    deaths: tuple[Died, ...] = ()
    outcome: Outcome | None = None
    began: float = 0.0
    applied: float = 0.0
    due: float | None = None  # end of the finishing grace
    silent: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    missed: tuple[HostLost, ...] = ()
    notes: tuple[str, ...] = ()
    hold: float | None = None
