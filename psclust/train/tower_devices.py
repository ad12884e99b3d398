"""The devices of a training; each gets a tower.

By default the GPUs that a task sees or, if it sees none, one CPU. A client can create several CPU
devices; a bare server has the devices it was started with (`device_count` of its job in the cluster
file), and the client asks it for them.
"""

from __future__ import annotations

import tensorflow as tf

from psclust.errors import UsageError
from psclust.spec.plurals import counted
from psclust.train.task_context import TaskContext, device, task_of


def own_devices(wanted: int | None) -> tuple[str, ...]:
    """The devices of this process to put towers on; `wanted`: how many. A single device has the
    empty name: TensorFlow chooses it. Raises UsageError if there are fewer GPUs."""
    gpus = len(tf.config.list_physical_devices("GPU"))
    if gpus and wanted is not None and wanted > gpus:
        raise UsageError(
            f"device_count is {wanted}, and this task sees {counted(gpus, 'GPU device')}; "
            "lower it, or leave it out to use all"
        )
    kind, count = ("GPU", wanted or gpus) if gpus else ("CPU", wanted or 1)
    return tuple(f"/device:{kind}:{index}" for index in range(count)) if count > 1 else ("",)


def cluster_devices(
    target: str, context: TaskContext, config: object, wanted: int | None
) -> tuple[str, ...]:
    """The devices of all workers of an in-graph cluster to put towers on, worker by worker:
    `wanted` of each; None: all. All servers must answer. Raises UsageError if a worker has
    fewer."""
    with tf.compat.v1.Session(target, graph=tf.Graph(), config=config) as session:
        found = [tf.DeviceSpec.from_string(entry.name) for entry in session.list_devices()]
    towers: list[str] = []
    for worker in context.replicas:
        here = [spec for spec in found if (spec.job, spec.task) == (worker.job, worker.index)]
        kind = "GPU" if any(spec.device_type == "GPU" for spec in here) else "CPU"
        count = sum(spec.device_type == kind for spec in here)
        if wanted is not None and wanted > count:
            raise UsageError(
                f"device_count is {wanted}, and {worker} has {counted(count, f'{kind} device')}: "
                f"a bare server gets its CPU devices from the cluster file, jobs: {{{worker.job}: "
                f"{{device_count: {wanted}}}}}"
            )
        towers += (
            [f"{device(worker)}/device:{kind}:{index}" for index in range(wanted or count)]
            if (wanted or count) > 1
            else [device(worker)]
        )
    return tuple(towers)


def input_of(tower: str) -> str:
    """The name of a tower's input in messages: `the input of worker:1`."""
    task, _, name = tower.partition("/device:")
    where = " ".join(filter(None, [str(task_of(task)) if task else "", name]))
    return f"the input of {where}" if where else "the input"
