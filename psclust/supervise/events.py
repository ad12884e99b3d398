"""What can happen to a run (events) and what the rules ask the supervisor to do (actions). Values
only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from psclust.plan.task_plan import Plan, TaskPlan
from psclust.rundir.task_progress import Progress
from psclust.spec.cluster import Task
from psclust.supervise.diagnosis import NOTHING_KNOWN, Diagnosis
from psclust.supervise.exit_code import describe_exit
from psclust.supervise.task_finding import Finding
from psclust.transport.api import SignalName


class Stage(Enum):
    """The part of an attempt's progress that matters to the rules; a new attempt starts at
    BEGUN."""

    BEGUN = "begun"
    ANSWERED = "answered"  # a server accepted a connection at its address
    JOINED = "joined"  # a program called Server.join: its process is only a server by now
    FINISHED = "finished"  # a program exited successfully; its process stays as a server
    TRAINED = "trained"  # a program needs no other task any more
    LEAVING = "leaving"  # as TRAINED, and about to exit


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended. `text` is one clause; `cause` the task that failed first; `collateral` those
    that failed only because of it; `remedy` a sentence for a failure that is known."""

    ok: bool
    exit_code: int
    text: str
    cause: Task | None = None
    attempt: int | None = None
    collateral: tuple[Task, ...] = ()
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Death:
    """An unsuccessful exit. code: as Python gives it (negative: the signal). at: a point in time,
    in seconds. diagnosis: of its last lines. killed_by: as `Exited` has it."""

    task: Task
    code: int
    at: float
    attempt: int
    lifetime_s: float = 0.0
    diagnosis: Diagnosis = NOTHING_KNOWN
    killed_by: str | None = None

    @property
    def how(self) -> str:
        """As a clause."""
        return self.killed_by or describe_exit(self.code)


# ---- events


@dataclass(frozen=True, slots=True)
class Apply:
    """Take over a plan, the first or a changed one. save: have the programs save and end first, and
    start every task again. joined: hosts that were lost, and are hosts of the run again."""

    plan: Plan
    save: bool = False
    joined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A task has a process."""

    task: Task
    pid: int


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A task could not get a process; `reason` is a sentence for the user."""

    task: Task
    reason: str


@dataclass(frozen=True, slots=True)
class Serving:
    """The task's port accepts connections."""

    task: Task


@dataclass(frozen=True, slots=True)
class Reported:
    """The task's program has reported a stage in its progress file."""

    task: Task
    stage: Stage


@dataclass(frozen=True, slots=True)
class Exited:
    """The process ended; `code` as Python gives it (negative: the signal). last_lines: of its
    output, if it failed by itself. model_step: the last that a psclust program reported.
    out_of_memory: the evidence that the kernel killed it, as a clause. killed_by: how it ended, as
    a clause, if it was short of memory."""

    task: Task
    code: int
    last_lines: tuple[str, ...] = ()
    model_step: int | None = None
    out_of_memory: str | None = None
    killed_by: str | None = None


@dataclass(frozen=True, slots=True)
class HostLost:
    """A host has been silent for so long that nothing of this run is alive there any more; `reason`
    is a clause for the user.
    all_hosts: the fault is on this machine, so that no other host is better off; `reason` is then
    the whole message."""

    host: str
    reason: str
    all_hosts: bool = False


@dataclass(frozen=True, slots=True)
class HostLeaves:
    """A host is to be given back: tasks that can leave it should; `reason` is a clause for the
    user. goes: soon it is gone with all that is there, else it stays for as long as it is
    needed."""

    host: str
    reason: str
    goes: bool


@dataclass(frozen=True, slots=True)
class HostSilent:
    """Contact with a host broke off, or came back."""

    host: str
    silent: bool = True


@dataclass(frozen=True, slots=True)
class Restart:
    """The user asks for a new attempt of one task."""

    task: Task


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run in order: TERM, grace, KILL. save: USR1 to the programs first, so that they can
    save their work; their servers stay until they have ended."""

    reason: str
    ok: bool = False
    exit_code: int = 1
    save: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """End the run now. exit_code: unless it is decided already how the run ends."""

    reason: str
    exit_code: int = 130


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed. printed: whether a program at work has printed something since the last
    one."""

    printed: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A sentence for the user, shown once."""

    text: str


@dataclass(frozen=True, slots=True)
class Stepped:
    """A program reports another global step. task: unless it is the one at which it began."""

    task: Task | None = None


@dataclass(frozen=True, slots=True)
class Progressed:
    """A program reports another phase."""

    task: Task
    progress: Progress


@dataclass(frozen=True, slots=True)
class Explained:
    """The answer to `Explain`; `text`, for the user, shows the findings."""

    text: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Looked:
    """The answer to `Look`, with its `since`. text: what holds the run up, as a clause for the
    user; None: it may just be quiet."""

    since: float
    text: str | None = None
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True)
class Slow:
    """A worker makes steps so many times slower than the median of all workers."""

    task: Task
    times: float


@dataclass(frozen=True, slots=True)
class NotMoved:
    """`Move` is impossible; `why` is a clause for the user. If it is possible, Apply follows
    instead."""

    move: Move
    why: str


# ---- actions


@dataclass(frozen=True, slots=True)
class Start:
    """Start one attempt of a task."""

    plan: TaskPlan
    attempt: int


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to the task's whole process group."""

    task: Task
    signal: SignalName


@dataclass(frozen=True, slots=True)
class Move:
    """Plan again without the hosts `lost`. If that is impossible, the run ends with `otherwise`,
    or, if not `vital`, goes on without the tasks that were there. absent: workers that the run goes
    on without. leaves: the last of the hosts is still there, so that programs can leave or save; if
    it is impossible, they save first, or, if not `vital`, stay."""

    lost: tuple[str, ...]
    otherwise: Outcome
    vital: bool
    absent: tuple[Task, ...] = ()
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Replace:
    """Plan again with the task, a slow worker (`Slow`), on another host. If that is impossible, say
    so. absent: see `Move`."""

    task: Task
    times: float
    absent: tuple[Task, ...] = ()


@dataclass(frozen=True, slots=True)
class Explain:
    """Find out what every task does."""


@dataclass(frozen=True, slots=True)
class Look:
    """Find out why the run has been silent since `since`. evident: it is worth a message even if
    tasks are busy."""

    since: float
    evident: bool


@dataclass(frozen=True, slots=True)
class End:
    """No task is alive; the run is over."""

    outcome: Outcome


TaskEvent = Started | NotStarted | Serving | Reported | Exited | Restart
Event = (
    TaskEvent
    | Stepped
    | Progressed
    | Explained
    | Looked
    | Apply
    | HostSilent
    | HostLeaves
    | HostLost
    | Note
    | NotMoved
    | Slow
    | Stop
    | Kill
    | Tick
)
Action = Start | Signal | Move | Replace | Explain | Look | End


def brief(item: Event | Action) -> str:
    """For a log."""
    if isinstance(item, Apply):
        return f"Apply({len(item.plan.tasks)} tasks)"
    if isinstance(item, Exited):
        return f"Exited({item.task}, {item.code})"
    if isinstance(item, Start):
        return f"Start({item.plan.task}, attempt {item.attempt})"
    return str(item)
