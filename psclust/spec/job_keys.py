"""The keys of a job, which say how its tasks run and are started again."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from psclust.spec.jobs import PS, WORKER
from psclust.spec.key_types import (
    Addresses,
    Arguments,
    Command,
    Environment,
    ExitCodes,
    HostNames,
    KeyModel,
    Ports,
    Seconds,
    TaskArguments,
    TaskEnvironments,
    Text,
)


class Restart(KeyModel):
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
        default=0.5,
        description="Wait before the second restart within the window; doubled each time, with "
        "jitter. The first is at once.",
    )
    max_backoff: Seconds = Field(default=30.0, description="The longest wait before a restart.")


MOST_TASKS = 4096  # of one job
_COUNT = {"type": "integer", "minimum": 0, "maximum": MOST_TASKS}


class Job(KeyModel):
    """The tasks of one job. A plain number in the file means `count`."""

    count: int = Field(
        default=1,
        ge=0,
        le=MOST_TASKS,
        description="How many tasks; default: 1, or as many as there are `addresses`, or slots for "
        "workers with `max`.",
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
    min: int | None = Field(
        default=None,
        ge=1,
        le=MOST_TASKS,
        description="Workers, with `input: handed_out`: the run starts, and goes on, with so many "
        "of them where hosts are missing or tasks fail for good. Default: it needs all.",
    )
    max: int | None = Field(
        default=None,
        ge=1,
        le=MOST_TASKS,
        description="Workers, with `input: handed_out`: the most that it takes. Without `count` "
        "the run has as many as there are slots, at most so many.",
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
