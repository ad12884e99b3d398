"""The keys of a cluster file: type, default and description of each; those of a job are in
`job_keys`, those about hosts in `host_keys`. The loader, its messages, the JSON Schema for editors
and the planner all use these models; after `load` nothing checks a value again."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from psclust.placement.placement_settings import AUTO
from psclust.placement.policies import POLICIES, ROUND_ROBIN, render_policies
from psclust.spec.cluster import Host
from psclust.spec.host_keys import Hosts, Kubernetes, Slurm, Ssh
from psclust.spec.job_keys import Job, Restart, default_jobs
from psclust.spec.jobs import PsFailure, WorkerFailure, added_job
from psclust.spec.key_types import (
    JOBS_SCHEMA,
    Admitted,
    Arguments,
    Command,
    Environment,
    FolderOrSwitch,
    Input,
    JobName,
    JobNames,
    KeyModel,
    Lease,
    ListenAddress,
    Name,
    PassedNames,
    Pins,
    PlacementPolicy,
    Ports,
    ReachBy,
    Replication,
    Seconds,
    ShardBytes,
    Text,
    Times,
    Update,
)
from psclust.spec.program_command import ProgramCommand, parse_program


def clean_name(text: str) -> str:
    """Any text, such as a folder's name, as the name of a run: other characters become `-`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:63] or "cluster"


# For programs and servers of psclust's own to end, which handle no SIGTERM.
_OWN_END_S = 0.5


class Deadlines(KeyModel):
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


class Placement(KeyModel):
    """Which ps holds a variable. A plain word in the file means `policy`."""

    policy: PlacementPolicy = Field(default=ROUND_ROBIN, description=f"{render_policies()}.")
    pin: Pins = Field(
        default_factory=dict,
        description="Pattern of variable names -> index of their ps; the first match counts.",
    )
    max_shard_bytes: ShardBytes = Field(
        default=AUTO,
        description="Larger variables are partitioned into shards; a number, a size such as 8MB, "
        "none, or auto: about 1 MB, one shard for each ps of a table, whole variables where the "
        "model or its optimizer needs them.",
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


class _Common(KeyModel):
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
    input: Input = Field(
        default="sharded",
        description="How workers share the data of a psclust program. sharded: each has its own "
        "part from the start; handed_out: parts are handed out while it trains, so that workers "
        "may join and leave (`psclust scale`).",
    )
    replace_slow: Times | None = Field(
        default=None,
        description="async, with `input: handed_out`: a worker that makes steps so many times "
        "slower than the median of all, over a minute, moves to a spare slot of another host; "
        "such as 3x. None by default.",
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
    encrypt: bool | None = Field(
        default=None,
        description="On other hosts: carry what tasks send each other under TLS; every task then "
        "has the same address of 127.0.0.1 on every host, and no other port. Default: true, unless "
        "the file has `addresses`, `admit`, or too few `ports` for that.",
    )
    admit: Admitted = Field(
        default_factory=list,
        description="Addresses and networks, such as 10.0.0.7 or 10.1.0.0/16, that may connect to "
        "the servers of tasks; default: the run's hosts alone, and on each of them its own user. "
        "all: everybody.",
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
    on_ps_failure: PsFailure = Field(
        default="restart-ps",
        description="After the death of a ps that `restart` allows another attempt. restart-ps: "
        "it starts again alone; restart-all: every task of the cluster is stopped, and all start "
        "again together; fail: the run ends.",
    )
    on_worker_failure: WorkerFailure = Field(
        default="restart-worker",
        description="The same for a worker, a chief or any other task of the cluster but a ps: "
        "restart-worker, restart-all or fail.",
    )
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


# Found anew, or only of where the run was started.
NOT_COPIED = {"found", "suited", "array_task", "kubernetes"}


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
    def is_elastic(self) -> bool:
        """Whether the workers of a psclust program may join and leave while it trains."""
        return self.input == "handed_out" and self.program_command.is_psclust

    @property
    def leave_s(self) -> float:
        """For programs on a host that is about to go, to leave it or to save; 0: they cannot."""
        return self.deadlines.finish if self.program_command.is_psclust else 0.0

    @property
    def lost_s(self) -> float:
        """Between TERM and KILL of tasks that an agent ends by itself, because it has lost the
        launcher or its host goes; they start elsewhere then. Programs and servers of psclust's own
        end at once."""
        program = self.program is not None and not self.program_command.is_psclust
        foreign = program or any(job.command for job in self.jobs.values())
        return self.deadlines.stop if foreign else min(self.deadlines.stop, _OWN_END_S)

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
