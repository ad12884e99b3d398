"""The plan of a run: one complete, printable record for each task. `psclust plan` shows it, the
supervisor executes it, and a second `up` compares it with its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from psclust.placement.home import VariablesHome
from psclust.plan.port_request import extra_port
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.jobs import PsFailure, WorkerFailure
from psclust.spec.preload_limits import Preload
from psclust.spec.typed_json import JsonRecord

# server: stopped when the programs have ended; side: an observer (evaluator, TensorBoard), which
# never ends the run.
Role = Literal["server", "program", "side"]
When = Literal["never", "signal", "failure"]


TIME_LIMIT_CODE = 124  # as timeout(1) exits


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """When a dead task is started again, and how often."""

    when: When
    max: int
    window_s: float
    backoff_s: float
    max_backoff_s: float


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task, ready to start. `env` extends the environment of its host, without variables that
    belong to other clusters."""

    task: Task
    host: str
    address: str | None
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    preload: Preload | None
    role: Role
    serves: bool  # a server of psclust's own: the start deadline applies, and clients wait for it
    needs: tuple[Task, ...]
    decides: bool
    ok_exit_codes: tuple[int, ...]
    restart: RestartPolicy
    recovery_wait_s: float | None
    free_port: int | None = None  # the port of `{free_port}`, once reserved
    # A script that learns no addresses: if it serves, then not at `address`.
    elsewhere: bool = False
    # How psclust gave it its role, as a clause for a failure that is about that.
    failure_hint: str | None = None
    summaries: str | None = None  # the folder on its host whose event files come to the launcher
    grows: bool = False  # it lives with any number of workers
    leaves: bool = False  # on SIGUSR2 it ends its step, gives back its data, and exits

    @property
    def listens(self) -> bool:
        """Whether a server, bare or a ps script, is expected at its address."""
        return self.role == "server" and self.address is not None and not self.elsewhere


@dataclass(frozen=True, slots=True)
class Deadlines:
    """`run_s` None: no limit; a run that reaches it ends with `run_exit_code`. `lease_s`,
    `detached_s`: how long an agent keeps its tasks without contact to the supervisor; `lost_s`:
    between TERM and KILL then. `progress_s`: how long a training may make no step; None: for
    ever."""

    start_s: float
    stop_s: float
    finish_s: float
    run_s: float | None
    lease_s: float = 30.0
    detached_s: float = 86400.0
    run_exit_code: int = TIME_LIMIT_CODE
    progress_s: float | None = None
    lost_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Plan(JsonRecord):
    """A whole cluster, ready to start. `notes`: sentences for the user; `lost`: hosts of the file
    that the run has lost, in that order. `on_ps_failure`, `on_worker_failure`: what follows a death
    after which the task may start again. `min_workers`: with how many workers the run still goes
    on; None: it needs all. `replace_slow`: how many times slower than the others a worker gives up
    its place. `home`: of the variables."""

    name: str
    cluster: ClusterSpec
    tasks: tuple[TaskPlan, ...]
    deadlines: Deadlines
    notes: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    on_ps_failure: PsFailure = "restart-ps"
    on_worker_failure: WorkerFailure = "restart-worker"
    min_workers: int | None = None
    replace_slow: float | None = None
    home: VariablesHome = field(default_factory=VariablesHome)

    def __getitem__(self, task: Task) -> TaskPlan:
        return next(entry for entry in self.tasks if entry.task == task)

    @property
    def hosts(self) -> dict[Task, str]:
        return {entry.task: entry.host for entry in self.tasks}

    def ports(self, without: Collection[Task] = ()) -> dict[Task, int]:
        """The ports of all tasks but some, including extra ports, as `reserve` returned them."""
        tasks = [entry for entry in self.tasks if entry.task not in without]
        ports = {
            entry.task: int(entry.address.rpartition(":")[2]) for entry in tasks if entry.address
        }
        extra = {extra_port(entry.task): entry.free_port for entry in tasks}
        return ports | {name: port for name, port in extra.items() if port is not None}
