"""The state of a run, as the rules see it. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task
from psclust.supervise.events import Action, Death, HostLost, Outcome, Stage


class TaskPhase(str, Enum):
    """STARTING: asked for, or a server that does not answer yet. FAILED: ended badly and is not
    started again. DROPPED: a worker that the run goes on without (jobs.worker.min)."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    DROPPED = "dropped"


class RunPhase(str, Enum):
    """FINISHING: the tasks that decide have ended, the other programs get their grace."""

    LIVE = "live"
    FINISHING = "finishing"
    STOPPING = "stopping"
    ENDED = "ended"


class AfterStop(Enum):
    """The fate of a task in STOPPING once its process has ended. REMOVE: the plan no longer has
    it."""

    STAY = "stay"
    RESTART = "restart"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class TaskState:
    """One task. due: when its next transition happens by itself (start after the back-off, KILL
    after TERM). restarts: times of restarts after failures. stage: of this attempt. after_stop: of
    a server in another phase than STOPPING, what follows once programs have left. leaving: in
    STOPPING, whether it was asked to end by itself. at: the host of its process, which ends so that
    another one starts on the host of the plan."""

    plan: TaskPlan
    phase: TaskPhase = TaskPhase.WAITING
    attempt: int = 0
    since: float = 0.0
    due: float | None = None
    pid: int | None = None
    exit_code: int | None = None
    restarts: tuple[float, ...] = ()
    stage: Stage = Stage.BEGUN
    after_stop: AfterStop = AfterStop.STAY
    leaving: bool = False
    at: str | None = None

    @property
    def where(self) -> str:
        """The host of its process, or of its next one."""
        return self.at or self.plan.host

    @property
    def alive(self) -> bool:
        return self.phase in (TaskPhase.STARTING, TaskPhase.RUNNING, TaskPhase.STOPPING)

    @property
    def pending(self) -> bool:
        """Whether it has no process now, and is about to get one."""
        return self.phase in (TaskPhase.WAITING, TaskPhase.BACKOFF)

    @property
    def finished(self) -> bool:
        """Whether its program exited successfully; its process may still serve."""
        return self.phase is TaskPhase.DONE or self.stage is Stage.FINISHED

    @property
    def joined(self) -> bool:
        """Whether its process is a program's that is only a server by now."""
        return self.stage in (Stage.JOINED, Stage.FINISHED)

    @property
    def may_save(self) -> bool:
        """Whether it is a program at work, which can save when it is asked to."""
        return self.alive and self.plan.role == "program" and not self.joined

    @property
    def removed(self) -> bool:
        return self.after_stop is AfterStop.REMOVE

    @property
    def awaited(self) -> bool:
        """Whether it is a server, bare or a ps script, whose process has not answered yet."""
        under_way = (
            self.phase is TaskPhase.STARTING
            if self.plan.serves
            else self.phase is TaskPhase.RUNNING
        )
        return (
            under_way and self.plan.listens and self.pid is not None and self.stage is Stage.BEGUN
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """The time without a sign of life of programs. since: of the last one. look_after_s: after how
    long a silence to look why. looking: whether that is being found out. text: the answer, for the
    user. shown: how many silences were explained since a task last began or ended."""

    since: float = 0.0
    look_after_s: float = 0.0
    looking: bool = False
    text: str | None = None
    shown: int = 0


@dataclass(frozen=True, slots=True)
class RunState:
    """A whole run. Times are in seconds, on a monotonic clock.

    attempts: the last one of each task, also of those that a plan has removed and another may bring
    back. deaths: all unsuccessful exits so far, in order. outcome: set once it is decided how the
    run ends. due: end of the finishing grace.
    silent: hosts without contact. lost: hosts on which nothing is started any more. leaving: the
    same, of hosts that are still there, until their tasks have left. missed: lost
    hosts whose tasks are not needed unless a program starts again. notes: sentences for the user.
    no_start_before: set while tasks of a lost host move, or all tasks start again; no task starts
    earlier, nor before every process that is being stopped has ended. together: that all tasks
    start again, and why, for the user, until they do. stepped: when a program last reported another
    step. next_plan: taken over once the programs, which save, have ended. asked: whether it was
    asked why there is no step; explained: when the answer came. replaced: when a slow worker last
    got another place, or was to. moving: the variables are on their way from where an earlier plan
    had them, and the servers there stay until a step is made. newcomers: workers that joined the
    live run, and have made no step so far."""

    plan: Plan | None = None
    phase: RunPhase = RunPhase.LIVE
    tasks: dict[Task, TaskState] = field(default_factory=dict)
    attempts: dict[Task, int] = field(default_factory=dict)
    deaths: tuple[Death, ...] = ()
    outcome: Outcome | None = None
    began: float = 0.0
    applied: float = 0.0
    due: float | None = None
    silent: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    leaving: tuple[str, ...] = ()
    missed: tuple[HostLost, ...] = ()
    notes: tuple[str, ...] = ()
    no_start_before: float | None = None
    together: str | None = None
    stepped: float = 0.0
    next_plan: Plan | None = None
    asked: bool = False
    explained: float | None = None
    silence: Silence = Silence()
    replaced: dict[Task, float] = field(default_factory=dict)
    moving: bool = False
    newcomers: frozenset[Task] = frozenset()

    def with_task(self, entry: TaskState) -> RunState:
        return replace(self, tasks={**self.tasks, entry.plan.task: entry})

    def with_note(self, text: str) -> RunState:
        return self if text in self.notes else replace(self, notes=(*self.notes, text))

    @property
    def given_up(self) -> tuple[str, ...]:
        """Hosts on which nothing is started any more."""
        return (*self.lost, *self.leaving)

    @property
    def any_alive(self) -> bool:
        return any(entry.alive for entry in self.tasks.values())


Result = tuple[RunState, list[Action]]
"""The next state, and the actions to carry out, in order."""
