"""The task and the cluster of this process, from the launcher's environment variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from psclust.errors import UsageError
from psclust.placement.home import VARIABLES, VariablesHome
from psclust.placement.placement_settings import PlacementSettings
from psclust.replication.device_layout import LOCAL, DeviceLayout
from psclust.spec.cluster import ClusterSpec, Task
from psclust.spec.jobs import (
    BETWEEN_GRAPH,
    EVALUATOR,
    IN_GRAPH,
    PS,
    WORKER,
    replica_jobs,
    server_jobs,
)
from psclust.spec.typed_json import converter, parse_json
from psclust.spec.whole_number import whole_number


@dataclass(frozen=True, slots=True)
class TaskContext:
    """task, cluster: None for a process that trains alone; an evaluator knows the cluster but is
    not in it. run_dir, progress_file: absolute paths; run: the run's id; None outside a run.
    backup_workers: gradients that a synchronous step does not wait for. max_staleness: how many
    steps an asynchronous replica may be ahead of the slowest; None: any number. device_count:
    devices of this task to use; None: all. devices: the devices of the towers once they are known:
    of this process or, in-graph, of all workers; see `tower_devices`. attempt: how often a batch
    system has started this job; None: once. restarted: this task has died before. target: the
    server that runs this client's sessions, as task `task`; None: one that is started in this
    process. elastic: the number of workers may change during the run: parts of the data are handed
    out, and servers know themselves alone, until a session brings the cluster. home: of the
    variables. kernels, own_wire:
    whether psclust's own kernels may be in its graphs, and psclust's own wire, until a task turns
    out to lack them, or not to be in reach."""

    task: Task | None = None
    cluster: ClusterSpec | None = None
    replication: str = BETWEEN_GRAPH
    sync: bool = False
    run_dir: Path | None = None
    progress_file: Path | None = None
    run: str | None = None
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    backup_workers: int = 0
    max_staleness: int | None = None
    device_count: int | None = None
    devices: tuple[str, ...] = ("",)
    attempt: int | None = None
    restarted: bool = False
    target: str | None = None
    elastic: bool = False
    home: VariablesHome = field(default_factory=VariablesHome)
    kernels: bool = True
    own_wire: bool = True

    @property
    def which_attempt(self) -> str:
        """To append to a sentence."""
        return f" (attempt {self.attempt})" if self.attempt else ""

    @property
    def replicas(self) -> tuple[Task, ...]:
        """The tasks that hold a replica of the model, in shard order, the chief first."""
        if self.cluster is None:
            return ()
        return tuple(
            Task(job, index)
            for job in replica_jobs(self.replication)
            for index in range(self.cluster.count(job))
        )

    def replica(self, number: int) -> Task:
        """The task of that replica; also of one that came after this process began."""
        known = self.replicas
        chiefs = sum(task.job != WORKER for task in known)
        return known[number] if number < len(known) else Task(WORKER, number - chiefs)

    @property
    def chief(self) -> Task | None:
        """The task that initializes the variables, writes the checkpoints and ends the training:
        in-graph the client, between-graph the first replica. None without a cluster, and for an
        in-graph evaluator, which does not know the client."""
        if self.replication == IN_GRAPH:
            return None if self.is_evaluator else self.task
        return self.replicas[0] if self.replicas else None

    @property
    def is_chief(self) -> bool:
        """Whether this process is the chief; it is if it trains alone."""
        return self.task == self.chief

    @property
    def is_evaluator(self) -> bool:
        return self.task is not None and self.task.job == EVALUATOR

    @property
    def in_step(self) -> bool:
        """Whether this process makes its steps together with others."""
        return self.sync and self.task is not None and self.replication == BETWEEN_GRAPH

    @property
    def layout(self) -> DeviceLayout:
        if self.task is None or self.cluster is None:
            return replace(LOCAL, workers=self.devices)
        ps, tasks = self.cluster.count(PS), tuple(map(device, self.replicas))
        layout = DeviceLayout(ps, tasks, device(self.task), self.placement)
        if self.replication != IN_GRAPH:
            return replace(layout, devices=self.devices)
        return layout if self.devices == ("",) else replace(layout, workers=self.devices)

    @property
    def peers(self) -> tuple[Task, ...]:
        """The other tasks whose servers this process's session needs."""
        if self.cluster is None:
            return ()
        jobs = server_jobs(self.replication)
        return tuple(
            task for task in self.cluster.tasks() if task.job in jobs and task != self.task
        )

    def address(self, task: Task) -> str:
        address = self.cluster.address(task) if self.cluster else None
        if address is None:
            raise UsageError(f"PSCLUST_TASK is {task}, which is not in PSCLUST_CLUSTER")
        return address


def device(task: Task) -> str:
    """TensorFlow's name for all devices of a task: `/job:worker/task:1`."""
    return f"/job:{task.job}/task:{task.index}"


def task_of(name: str) -> Task:
    """The task that `device` gave this name."""
    job, index = name.removeprefix("/job:").split("/task:")
    return Task(job, int(index))


def read_context(environment: Mapping[str, str]) -> TaskContext:
    """Parses the PSCLUST_* variables; without PSCLUST_CLUSTER this process trains alone. Raises
    UsageError."""
    run_dir = _path(environment, "PSCLUST_RUN_DIR")
    progress = _path(environment, "PSCLUST_PROGRESS")
    run = environment.get("PSCLUST_RUN")
    text = environment.get("PSCLUST_CLUSTER")
    if not text:
        return TaskContext(run_dir=run_dir, progress_file=progress, run=run)
    try:
        cluster = ClusterSpec(converter(Mapping[str, tuple[str, ...]])(parse_json(text)))
        task = Task.parse(environment.get("PSCLUST_TASK", ""))
        text = environment.get(VARIABLES)
        home = converter(VariablesHome)(parse_json(text)) if text else VariablesHome()
    except ValueError as error:
        raise UsageError(
            f"PSCLUST_CLUSTER, PSCLUST_TASK or {VARIABLES} cannot be read: {error}. "
            "Start the program with `psclust up`"
        ) from error
    replication = _choice(environment, "PSCLUST_REPLICATION", (BETWEEN_GRAPH, IN_GRAPH))
    update = _choice(environment, "PSCLUST_UPDATE", ("async", "sync"))
    context = TaskContext(
        task,
        cluster,
        replication,
        update == "sync",
        run_dir,
        progress,
        run,
        PlacementSettings.parse(environment.get("PSCLUST_PLACEMENT", "")),
        backup_workers=_count(environment, "PSCLUST_BACKUP_WORKERS") or 0,
        max_staleness=_count(environment, "PSCLUST_MAX_STALENESS"),
        device_count=_count(environment, "PSCLUST_DEVICE_COUNT") or None,
        attempt=_count(environment, "PSCLUST_JOB_ATTEMPT"),
        restarted=environment.get("PSCLUST_ATTEMPT", "1") not in ("", "1"),
        elastic=environment.get("PSCLUST_INPUT") == "handed_out",
        home=home,
    )
    if context.is_evaluator:
        return context
    context.address(task)
    if replication == BETWEEN_GRAPH and task not in context.replicas:
        raise UsageError(
            f"PSCLUST_TASK is {task}: between-graph, the program runs on chief and workers, "
            "every other task is a bare server"
        )
    return context


def _path(environment: Mapping[str, str], name: str) -> Path | None:
    return Path(environment[name]) if environment.get(name) else None


def _count(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    number = whole_number(text) if text else None
    if text and number is None:
        raise UsageError(f"{name} is {text!r}; it must be a whole number, 0 or more")
    return number


def _choice(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = environment.get(name) or choices[0]
    if value not in choices:
        raise UsageError(f"{name} is {value!r}; it must be one of {', '.join(choices)}")
    return value
