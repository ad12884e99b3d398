"""The keys about hosts: which there are, how they are reached, and what makes them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from psclust.spec.key_types import (
    Arguments,
    GpuCounts,
    KeyModel,
    Label,
    Lines,
    NodeCounts,
    ObjectNames,
    PodSpec,
    Resource,
    Resources,
    Seconds,
    Text,
    TextOrTexts,
    TimeLimit,
    Volumes,
    such_as,
)
from psclust.spec.port_range import LAST_PORT


class HostEntry(KeyModel):
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


class Ssh(KeyModel):
    """Log-ins by SSH."""

    parallel: int = Field(
        default=8, ge=1, le=256, description="Log-ins at once; an sshd drops some of more than ten."
    )
    deadline: Seconds = Field(
        default=60.0,
        description="For all log-ins together; then the run fails and names the missing hosts.",
    )


class Slurm(KeyModel):
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


class Kubernetes(KeyModel):
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
