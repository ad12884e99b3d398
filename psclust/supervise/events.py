"""What can happen to a run (events) and what the rules may ask for (actions). Values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from psclust.plan.task_plan import Plan, TaskPlan
from psclust.spec.cluster import Task


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `text` is one clause; `cause` the task it began with; `collateral` those that failed only because of it."""

    ok: bool
    exit_code: int
    text: str
    cause: Task | None = None
    attempt: int | None = None
    collateral: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Died:
    """An unsuccessful end: exit code as Python gives it (negative: the signal), at a time in seconds, after so many seconds of life."""

    task: Task
    code: int
    at: float
    attempt: int
    lived: float = 0.0


# ---- events: what happened


@dataclass(frozen=True, slots=True)
class Apply:
    """A plan to make true: the first, or a changed one."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Started:
    """A process exists."""

    task: Task
    pid: int


@dataclass(frozen=True, slots=True)
class NotStarted:
    """No process came to be; `reason` is a sentence for the user."""

    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class Serving:
    """The task's port answers."""

    task: Task


@dataclass(frozen=True, slots=True)
class Joined:
    """The task's process is only a server any more: its program called `Server.join`, which never returns, or has ended well (`done`)."""

    task: Task
    done: bool = False


@dataclass(frozen=True, slots=True)
class Trained:
    """The task's program has trained: what it still does needs no other task. `over`: nothing, it is about to end."""

    task: Task
    over: bool


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended; `code` as Python gives it (negative: the signal)."""

    task: Task
    code: int


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host has not been heard for so long that nothing of this run is alive there any more; `reason` is a clause for the user.
    all_hosts: the reason is here, and no other host can be better off; `reason` says all of it."""

    host: str
    reason: str
    all_hosts: bool = False


@dataclass(frozen=True, slots=True)
class HostSilent:
    """There is no contact with a host, or there is again."""

    host: str
    silent: bool = True


@dataclass(frozen=True, slots=True)
class Restart:
    """The user asks for a new attempt of one task."""

    task: Task


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run in order: TERM, grace, KILL."""

    reason: str
    ok: bool = False
    exit_code: int = 1


@dataclass(frozen=True, slots=True)
class Kill:
    """End the run now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed."""


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user, said once."""

    text: str


@dataclass(frozen=True, slots=True)
class NotMoved:
    """What `Move` asked for cannot be done; `why` is a clause for the user. Where it can be done, Apply is the answer."""

    move: Move
    why: str


# ---- actions: what must be done


@dataclass(frozen=True, slots=True)
class Start:
    """Start one attempt of a task."""

    plan: TaskPlan
    attempt: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to the task's whole process group."""

    task: Task
    signal: Literal["TERM", "KILL"]


@dataclass(frozen=True, slots=True)
class Move:
    """Plan anew without the hosts `lost`. `otherwise` is how the run ends where that cannot be done; if it is not `vital`, the run goes on
    without what was there."""

    lost: tuple[str, ...]
    otherwise: Outcome
    vital: bool


@dataclass(frozen=True, slots=True)
class End:
    """Nothing is alive any more; the run is over."""

    outcome: Outcome


Event = (
    Apply
    | Started
    | NotStarted
    | Serving
    | Joined
    | Trained
    | Exited
    | HostSilent
    | HostLost
    | Note
    | NotMoved
    | Restart
    | Stop
    | Kill
    | Tick
)
Action = Start | Signal | Move | End
