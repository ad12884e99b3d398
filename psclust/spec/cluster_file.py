"""The keys of a cluster file: type, default and description of each. The loader, its messages, the
JSON Schema for editors and the planner all use these models; after `load` nothing checks a value
again."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from psclust.placement.policies import BALANCED, POLICIES, render_policies
from psclust.spec.cluster import Host
from psclust.spec.jobs import PS, WORKER, added_job
from psclust.spec.key_types import (
    JOBS_SCHEMA,
    Addresses,
    Arguments,
    Bytes,
    Command,
    Environment,
    ExitCodes,
    FolderOrSwitch,
    GpuCounts,
    HostNames,
    JobName,
    JobNames,
    Label,
    Lease,
    Lines,
    ListenAddress,
    Name,
    NodeCounts,
    ObjectNames,
    PassedNames,
    Pins,
    PlacementPolicy,
    PodSpec,
    Ports,
    ReachBy,
    Replication,
    Resource,
    Resources,
    Seconds,
    TaskArguments,
    TaskEnvironments,
    Text,
    TextOrTexts,
    TimeLimit,
    Update,
    Volumes,
    such_as,
)
from psclust.spec.port_range import LAST_PORT
from psclust.spec.program_command import ProgramCommand, parse_program


def clean_name(text: str) -> str:
    """Any text, such as a folder's name, as the name of a run: other characters become `-`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:63] or "cluster"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class HostEntry(_Model):
    """A host written as a mapping; `name` may be a range such as node[01-04]."""

    name: Text
    slots: int | None = Field(
        default=None,
        ge=1,
        description="How many tasks the host takes; default: any number. "
        "Spare slots take the tasks of a lost host.",
    )
    user: Text | None = Field(default=None, description="The SSH user.")
    port: int | None = Field(default=None, ge=1, le=LAST_PORT, description="The SSH port.")


Hosts = Annotated[list[Text | HostEntry], such_as("a:2", "b:2")]


class Restart(_Model):
    """When and how often a task that died is started again."""

    when: Literal["never", "signal", "failure"] | None = Field(
        default=None,
        description="never; signal: killed, or failed right after another task was killed; "
        "failure: any unsuccessful end, unless another attempt would fail alike. Default: "
        "failure for servers and evaluators, signal for programs.",
    )
    max: int = Field(
        default=3,
        ge=0,
        description="How many restarts a task gets within the window; one more ends the run.",
    )
    window: Seconds = Field(default=600.0, description="The time in which restarts are counted.")
    backoff: Seconds = Field(
        default=0.5, description="Wait before the first restart; doubled each time, with jitter."
    )
    max_backoff: Seconds = Field(default=30.0, description="The longest wait before a restart.")


class Deadlines(_Model):
    """Time limits."""

    start: Seconds = Field(
        default=60.0,
        description="Until every server answers; then the run fails and names the missing ones.",
    )
    stop: Seconds = Field(default=10.0, description="Between TERM and KILL when a task is stopped.")
    finish: Seconds = Field(
        default=60.0,
        description="For the other programs to end, after the jobs whose end ends the run.",
    )
    run: Seconds | None = Field(
        default=None, description="Time limit of the whole run; none by default."
    )
    run_exit_code: int = Field(
        default=124,
        ge=0,
        le=255,
        description="Exit code of a run that reaches that limit; 0 means success.",
    )
    progress: Seconds | None = Field(
        default=None,
        description="Without a step of a psclust program; then `psclust why` is shown, "
        "and the run fails. None by default.",
    )
    lease: Lease = Field(
        default=30.0,
        description="On other hosts: "
        "tasks are stopped after so long without contact to the launcher.",
    )
    detached: Lease = Field(default=86400.0, description="The same for a detached run (`up -d`).")


class Ssh(_Model):
    """Log-ins by SSH."""

    parallel: int = Field(
        default=8, ge=1, le=256, description="Log-ins at once; an sshd drops some of more than ten."
    )
    deadline: Seconds = Field(
        default=60.0,
        description="For all log-ins together; then the run fails and names the missing hosts.",
    )


class Slurm(_Model):
    """The job that `psclust up --slurm` submits; `srun` and `requeue` count in any allocation."""

    partition: TextOrTexts | None = Field(
        default=None,
        description="Default: Slurm's own. "
        "A list has one for each group of a heterogeneous job (het-0, het-1, ...).",
    )
    account: Text | None = Field(
        default=None, description="The account that is charged; default: the user's own."
    )
    time: TimeLimit | None = Field(
        default=None, description="Time limit, such as 4:00:00; default: the partition's."
    )
    nodes: NodeCounts = Field(
        default=1,
        description="How many nodes; a list has one number for each group of a heterogeneous job.",
    )
    gpus: GpuCounts | None = Field(
        default=None,
        description="GPUs of each node, or of those of each group; default: "
        "as many as the tasks there need (`gpus` of jobs).",
    )
    sbatch: Arguments = Field(
        default_factory=list, description="Further options of sbatch, such as --array=0-3."
    )
    setup: Lines = Field(
        default_factory=list,
        description="Lines of the script before psclust starts, such as `module load ...`.",
    )
    srun: Arguments = Field(
        default_factory=list,
        description="Further options of the srun that starts psclust on a node.",
    )
    requeue: int = Field(
        default=0,
        ge=0,
        description="How often a batch job that ends early, after a checkpoint, "
        "is put into the queue again, to resume.",
    )


class Placement(_Model):
    """Which ps holds a variable. A plain word in the file means `policy`."""

    policy: PlacementPolicy = Field(default=BALANCED, description=f"{render_policies()}.")
    pin: Pins = Field(
        default_factory=dict,
        description="Pattern of variable names -> index of their ps; the first match counts.",
    )
    max_shard_bytes: Bytes | None = Field(
        default=None,
        description="Larger variables are partitioned into shards, by rows; "
        "a number or a size such as 8MB. Default: none is.",
    )

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"policy": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string", "enum": list(POLICIES)}, handler(core_schema)]}


class Kubernetes(_Model):
    """What `psclust manifest` and `psclust up --kubernetes` need; `up` elsewhere ignores it."""

    image: Text | None = Field(
        default=None, description="The image of all pods: psclust, TensorFlow and the program."
    )
    namespace: Label | None = Field(default=None, description="Default: the one that kubectl uses.")
    pod: PodSpec = Field(
        default_factory=dict,
        description="Laid over the spec of each pod, in Kubernetes' words: "
        "nodeSelector, tolerations ...",
    )
    context: Text | None = Field(
        default=None, description="up: the context of the kubeconfig; default: its current one."
    )
    start: Seconds = Field(
        default=300.0,
        description="up: until all pods run, with their image pulled; "
        "then the run fails and says why.",
    )
    spares: int = Field(
        default=0, ge=0, le=256, description="up: further pods, which take the tasks of lost ones."
    )
    queue: Label | None = Field(
        default=None, description="The LocalQueue of Kueue that admits the pods; default: none."
    )
    resources: Resources = Field(
        default_factory=dict,
        description="Job -> what each of its pods requests: cpu, memory ...; "
        "all but cpu is also its limit. GPUs: the job's `gpus`.",
    )
    gpu: Resource = Field(
        default="nvidia.com/gpu", description="The resource that `gpus` of a job counts."
    )
    secrets: ObjectNames | None = Field(
        default=None, description="Secrets whose keys every task gets as environment variables."
    )
    volumes: Volumes = Field(
        default_factory=dict,
        description="PersistentVolumeClaim -> where every pod mounts it, for checkpoints and data.",
    )


_COUNT = {"type": "integer", "minimum": 0, "maximum": 4096}


class Job(_Model):
    """The tasks of one job. A plain number in the file means `count`."""

    count: int = Field(
        default=1,
        ge=0,
        le=4096,
        description="How many tasks; default: 1, or as many as there are `addresses`.",
    )
    hosts: HostNames | None = Field(
        default=None,
        description="Names of the hosts that this job's tasks are pinned to, in order, repeated as "
        "needed; in a heterogeneous Slurm job also het-0 for the nodes of its first group.",
    )
    gpus: int | None = Field(
        default=None,
        ge=0,
        description="GPUs that each task sees; default: none for ps tasks, all for others.",
    )
    device_count: int | None = Field(
        default=None,
        ge=1,
        le=256,
        description="Devices of each task that hold a tower of a psclust program: so many of the "
        "GPUs it sees, or without GPUs so many CPU devices. Default: all GPUs, or one CPU.",
    )
    ports: Ports | None = Field(
        default=None,
        description="auto, a first port, or a range such as 2300-2399; "
        "default: the file's `ports`.",
    )
    addresses: Addresses | None = Field(
        default=None,
        description="The host:port of each task, if the program has them written in; "
        "psclust checks that they are free.",
    )
    run: Literal["program", "server"] | Command | None = Field(
        default=None,
        description="What the tasks run: the run's program, a bare TensorFlow server, "
        "or a command of their own, in which a first word `python` or `python3` becomes the "
        "interpreter of `python:`. Default: depends on the program and the replication.",
    )
    server: Literal["bare", "python"] = Field(
        default="bare", description="bare: by the C API, fast and small; python: tf.train.Server."
    )
    in_cluster: bool | None = Field(
        default=None,
        description="Whether the job is in the cluster spec; default: yes, except evaluator.",
    )
    args: Arguments | None = Field(
        default=None, description="Arguments instead of the file's `args`; placeholders allowed."
    )
    extra_args: Arguments = Field(
        default_factory=list, description="Arguments after the common ones, for this job only."
    )
    env: Environment = Field(
        default_factory=dict, description="Added to this job's environment; placeholders allowed."
    )
    task_args: TaskArguments = Field(
        default_factory=dict,
        description="Extra arguments of single tasks, by index.",
    )
    task_env: TaskEnvironments = Field(
        default_factory=dict,
        description="Extra environment of single tasks, by index.",
    )
    python: Text | None = Field(default=None, description="The interpreter of this job.")
    cwd: Text | None = Field(default=None, description="The working folder of this job.")
    ok_exit_codes: ExitCodes = Field(
        default_factory=lambda: [0], description="Exit codes that count as success."
    )
    restart: Restart | None = Field(
        default=None, description="Instead of the file's `restart`, for this job."
    )

    @property
    def command(self) -> list[str] | None:
        """The job's own command, in place of the run's program."""
        return self.run if isinstance(self.run, list) else None

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"count": value}
        if (
            isinstance(value, dict)
            and "count" not in value
            and isinstance(value.get("addresses"), list)
        ):
            return {**value, "count": len(value["addresses"])}
        return value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [_COUNT, handler(core_schema)]}


def default_jobs() -> dict[str, Job]:
    """The jobs of a cluster that names none."""
    return {PS: Job(), WORKER: Job(count=2)}


class _Common(_Model):
    jobs: dict[JobName, Job] = Field(
        default_factory=default_jobs,
        description="The cluster's jobs: how many tasks each has, "
        "or a mapping with more about them. Default: ps: 1, worker: 2.",
        json_schema_extra=JOBS_SCHEMA,
    )
    program: Text | Command | None = Field(
        default=None,
        description="train.py, module:program, `-m module`, or a command as a list; "
        "none: bare servers only.",
    )
    args: Arguments = Field(
        default_factory=list,
        description="The program's arguments; "
        "placeholders such as {ps_hosts} or {address:worker:0} are filled in.",
    )
    role_by: Literal["auto", "flags", "tf_config", "none"] = Field(
        default="auto",
        description="How a script learns its role: "
        "flags (--ps_hosts --worker_hosts --job_name --task_index), tf_config, or none; auto: "
        "as the source of the script asks, without the flags and variables that you give.",
    )
    replication: Replication | None = Field(
        default=None,
        description="in-graph, between-graph, "
        "or coordinator (a script whose chief alone runs code); default: "
        "between-graph, or coordinator for a script that coordinates workers, by its source.",
    )
    update: Update = Field(
        default="async",
        description="sync: one step waits for every worker's gradient; async: none waits.",
    )
    backup_workers: int = Field(
        default=0,
        ge=0,
        description="sync: a step waits for the gradients of all but so many workers; "
        "late ones are dropped.",
    )
    max_staleness: int | None = Field(
        default=None,
        ge=0,
        description="async: a worker more than so many steps ahead of the slowest waits; "
        "default: none waits.",
    )
    placement: Placement = Field(
        default_factory=Placement,
        description=f"Which ps holds a variable: {', '.join(POLICIES)}, "
        "or a mapping that also pins and partitions variables.",
    )
    ports: Ports = Field(
        default="auto",
        description="auto: free ones; 2222: task i of a job gets 2222 + i; 2300-2399: "
        "the first free ones of the range.",
    )
    interface: Text | None = Field(
        default=None,
        description="On other hosts: the network interface, or the subnet such as 10.0.0.0/8, "
        "where tasks listen and are reached; default: the address that SSH reached, "
        "or another one that every host reaches.",
    )
    tunnel: bool = Field(
        default=False,
        description="Connect to the agents on other hosts through SSH rather than to a port.",
    )
    env: Environment = Field(
        default_factory=dict, description="Added to every task's environment; placeholders allowed."
    )
    python: Text | None = Field(
        default=None, description="The interpreter of the tasks; default: the one psclust runs in."
    )
    cwd: Text | None = Field(
        default=None, description="The tasks' working folder; default: where `up` was called."
    )
    ship: Text | None = Field(
        default=None,
        description="The program's folder, relative to this file: "
        "sent to the hosts, without what .gitignore excludes; the tasks' working folder there.",
    )
    pass_env: PassedNames | None = Field(
        default=None,
        description="Variables of the calling environment for tasks on other hosts, "
        "which get no others.",
    )
    env_file: Text | None = Field(
        default=None,
        description="A file of NAME=VALUE lines for every task, "
        "relative to this file; never shown.",
    )
    reach_by: ReachBy = Field(
        default="ssh",
        description="How the hosts are reached: ssh, or slurm (srun, inside an allocation); "
        "default: slurm for hosts: slurm. kubernetes: the pods of `up --kubernetes`.",
    )
    ssh: Ssh = Field(default_factory=Ssh)
    slurm: Slurm = Field(default_factory=Slurm)
    preload: bool = Field(
        default=True,
        description="Fork Python programs from a process that has already imported TensorFlow; "
        "false: execute them.",
    )
    recovery_wait: Seconds | Literal[False] = Field(
        default=1.0,
        description="Replaces the 30 s poll of MonitoredTrainingSession and Supervisor in Python "
        "programs; false keeps it.",
    )
    ends_with: Literal["auto", "chief", "workers", "all", "never"] | JobNames = Field(
        default="auto",
        description="The jobs whose end ends the run; auto: "
        "the chief or client if there is one, else all workers.",
    )
    restart: Restart = Field(default_factory=Restart)
    deadlines: Deadlines = Field(default_factory=Deadlines)
    metrics: ListenAddress | None = Field(
        default=None,
        description="Serve what `psclust top` shows to Prometheus, "
        "at this port of 127.0.0.1 on the machine that calls `up`, "
        "or at an address:port such as 0.0.0.0:9400, without authentication. None by default.",
    )
    tensorboard: FolderOrSwitch = Field(
        default=False,
        description="Start TensorBoard on the machine that calls `up`, until the run ends: "
        "true shows the model folder of a psclust program; "
        "for a script, write the folder where its chief writes event files. Default: false.",
    )
    kubernetes: Kubernetes = Field(default_factory=Kubernetes)


class ClusterText(_Common):
    """A cluster of TensorFlow parameter servers and workers, and what runs on it."""

    name: Name | None = Field(default=None, description="The run's name; default: the file's name.")
    hosts: Text | Hosts | None = Field(
        default=None,
        description="Where tasks run: `a,user@b:2,node[01-04]`, or a list of such "
        "texts and mappings. A number below 1024 after the colon is slots, except 22; "
        "any other is the SSH port. slurm: the nodes of the Slurm allocation around psclust; "
        "local: this machine. Default: slurm in an allocation, else local.",
        json_schema_extra={"examples": ["a:2, b:2"]},
    )
    hostfile: Text | None = Field(
        default=None,
        description="Instead of `hosts`: a file with one host per line (`node1 slots=4`), "
        "relative to this file.",
    )


class ClusterFile(_Common):
    """A cluster file with hosts parsed and flags applied, as the planner uses it."""

    name: Name
    hosts: list[Host] = Field(
        default_factory=list, description="Where tasks run; none: this machine."
    )
    found: Text | None = Field(
        default=None,
        description="Which hosts were found, for the user, if no file or flag lists them.",
    )
    suited: Text | None = Field(
        default=None, description="What psclust has set for the program's sake, for the user."
    )
    array_task: Text | None = Field(
        default=None, description="The value of {array_task}, in a task of a Slurm array job."
    )

    @property
    def program_command(self) -> ProgramCommand:
        return parse_program(self.program)

    @property
    def all_jobs(self) -> dict[str, Job]:
        """The jobs of the file, and the one psclust adds."""
        added = added_job(
            [name for name, job in self.jobs.items() if job.count],
            self.replication,
            self.program_command.kind,
        )
        return self.jobs | ({added: Job()} if added else {})

    def arguments(self, job: Job) -> list[str]:
        """The arguments that all tasks of the job get; those of a job with a command of its own are
        part of the command."""
        return (
            [] if job.command else [*(self.args if job.args is None else job.args), *job.extra_args]
        )


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a cluster file as people write it, for editors."""
    schema = ClusterText.model_json_schema()
    order = ("name", "hosts", "hostfile")
    properties = schema["properties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "psclust cluster file",
        "properties": {
            key: properties[key]
            for key in (*order, *(key for key in properties if key not in order))
        },
        "not": {"required": ["hosts", "hostfile"]},
    }
