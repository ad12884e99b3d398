"""The devices of a replicated graph, as names. No TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from psclust.placement.partition import Cut
from psclust.placement.placement_settings import PlacementSettings


@dataclass(frozen=True, slots=True)
class Decided:
    """What is known of a model's variables before its graph is built, from a graph built before or
    from another client.

    placed: name -> ps index of every variable and shard. cuts: name -> cut of every variable that
    is partitioned. None: the settings decide. whole: why `auto` partitions none of them.
    """

    placed: Mapping[str, int] | None = None
    cuts: Mapping[str, Cut] | None = None
    whole: str | None = None


@dataclass(frozen=True, slots=True)
class DeviceLayout:
    """The devices of a replicated graph.

    ps: number of ps tasks; 0 means one process without a cluster.
    workers: device of every replica: a task such as `/job:worker/task:1`, or one of its devices,
        `/job:worker/task:1/device:GPU:0`; an empty string is this process. Between-graph a replica
        is a task, in-graph a tower.
    client: device of the process that drives the session.
    placement: which ps holds a variable, and which variables are partitioned.
    decided: what `placement` need not decide any more.
    devices: between-graph, the devices of each worker that get a tower, such as `/device:GPU:0`; an
        empty string leaves it to TensorFlow.
    """

    ps: int
    workers: tuple[str, ...]
    client: str
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    decided: Decided = Decided()
    devices: tuple[str, ...] = ("",)

    @property
    def parameters(self) -> str:
        """The device of the step counter and of everything else that belongs to no model
        variable."""
        return "/job:ps/task:0" if self.ps else host_of(self.workers[0]) if self.workers else ""

    @property
    def towers(self) -> DeviceLayout:
        """The same with every device of every worker as a replica, worker by worker."""
        return replace(
            self,
            workers=tuple(worker + device for worker in self.workers for device in self.devices),
            devices=("",),
        )


def host_of(device: str) -> str:
    """The CPU of the task that `device` belongs to; a task alone stays as it is, and TensorFlow
    decides."""
    task, named, _ = device.partition("/device:")
    return f"{task}/device:CPU:0" if named else device


LOCAL = DeviceLayout(ps=0, workers=("",), client="")
